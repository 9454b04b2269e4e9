// Sessions: those of processes that live, and those that are being ended; and what each process has
// mapped, holds, and may not lose.
#include <algorithm>

#include "fmt/format.h"
#include "tests/simulation/invariants.h"
#include "tests/simulation/violation.h"

namespace memlease::simulation {
namespace {

using server::Array;
using server::Session;

void check_table(const World& world) {
  std::size_t ending = 0;
  for (const Session* session : world.broker.sessions().all()) {
    const Process* const process = world.process_of(session->id);
    if (session->ending) ++ending;
    require((process == nullptr) == session->ending, "a session ends with its process");
    require(session->connected == (process != nullptr && process->connected),
            "a session is connected as long as its process is");
    for (const wire::ArrayId id : session->created) {
      const Array* const array = world.array(id);
      require(array != nullptr && array->creator == session->id,
              "a session has created what it is said to have created");
    }
    for (const auto& [id, membership] : session->memberships) {
      const Array* const array = world.array(id);
      const bool is_member =
          array != nullptr && std::ranges::count(array->members, session->id) != 0;
      require(membership.entry == nullptr || is_member, "whom a board names is a member");
      require(is_member || membership.reader_row || membership.writer_row,
              "what a session has open is there, or has left it rows");
    }
  }
  require(world.broker.sessions().size() == world.processes.size() + ending,
          "every process has one session");
  require(world.broker.sessions_are_ending() == (ending != 0), "a session that ends is worked off");
}

// Of processes that are gone, nothing is left but what is meant to stay.
void check_left(const World& world) {
  for (const Array* array : world.broker.catalog().all()) {
    if (array->withdrawn || array->kind->lifetime == wire::Lifetime::kPersistent) continue;
    if (array->rare().home) {
      const Array* const home = world.array(*array->rare().home);
      require(home != nullptr && !home->withdrawn, "a replica goes with its home");
      continue;
    }
    require(world.broker.sessions().find(array->creator) != nullptr,
            "an array goes with the session that created it");
  }
}

// What the pages of sessions and arrays are, for the looks that follow.
void note_pages(World& world) {
  const auto note = [&](const void* address, const server::AccessDomain& domain,
                        wire::SessionId owner) {
    PlainMemory::File* const file = world.memory.page_at(address);
    require(file != nullptr, "what the daemon uses is in its pages");
    require(!file->domain || (*file->domain == domain && file->owner == owner),
            "a page never changes whose it is");
    file->domain = domain;
    file->owner = owner;
  };
  for (const Array* array : world.broker.catalog().all()) {
    note(array->board, array->domain, {});
    note(array->takeover, array->domain, {});
  }
  for (const Session* session : world.broker.sessions().all()) {
    for (const auto& [domain, pages] : session->pages) {
      for (const wire::FileId file : pages->files()) {
        note(&world.broker.rows().reader({file, 0}), domain, session->id);
      }
    }
  }
}

void check_mappings(const Process& process) {
  for (const auto& [number, mapped] : process.mapped()) {
    const PlainMemory::File& file = *mapped.file;
    if (!file.domain) continue;  // of a page that nothing stands in any more; the board of names
    const unsigned rights = rights_of(process.peer, *file.domain);
    if ((rights & 4) == 0) {
      violated(fmt::format("session {} of uid {} has mapped a file of uid {} with mode {:#o}",
                           wire::to_int(process.session), process.peer.uid, file.domain->uid,
                           file.domain->mode));
    }
    const bool may_write = file.segment ? rights == 6 : file.owner == process.session;
    require(!mapped.writable || may_write, "nobody has what is not his to write");
  }
}

void check_leases(World& world, const Process& process) {
  const auto check = [&](const OpenedArray& opened, const Lease& lease) {
    const Array* const array = world.array(opened.id);
    require(array != nullptr, "an array stays while somebody uses it");
    require(lease.slot < array->slots.size() && array->slots[lease.slot] == lease.place,
            "a slot stays where it is while somebody uses it");
    if (world.numbers_of(opened.id).spoilt) return;
    const Bytes& bytes = world.bytes_at(lease.place);
    if (bytes.array != opened.id || bytes.version != lease.version) {
      violated(fmt::format("session {} uses version {} of array {}, and finds {} of array {}",
                           wire::to_int(process.session), lease.version, wire::to_int(opened.id),
                           bytes.version, wire::to_int(bytes.array)));
    }
  };
  for (const auto& [id, opened] : process.arrays) {
    for (const Lease& lease : opened.leases) check(opened, lease);
    if (opened.write) check(opened, *opened.write);
  }
}

void check_imports(const World& world, const Process& process) {
  for (const auto& [file, number] : process.imported_memory) {
    require(world.gpu.segments_alive.contains(number),
            "no memory is destroyed while a process has it open");
  }
}

}  // namespace

void check_sessions(World& world) {
  check_table(world);
  check_left(world);
  note_pages(world);
  for (const auto& process : world.processes) {
    check_mappings(*process);
    check_leases(world, *process);
    check_imports(world, *process);
  }
}

}  // namespace memlease::simulation
