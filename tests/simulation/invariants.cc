#include "tests/simulation/invariants.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "fmt/format.h"
#include "server/core/audit.h"
#include "server/core/connection_charges.h"
#include "tests/simulation/violation.h"

namespace memlease::simulation {

using server::Array;
using server::Usage;

void Invariants::check(World& world) {
  check_sessions(world);
  check_arrays(world);
  check_accounts(world);
  check_audit(world);
  check_changes(world);
  check_limits(world);
}

// What the daemon finds of all this by itself.
void Invariants::check_audit(const World& world) {
  const server::Audit audit = server::audit(world.broker);
  if (audit.wrong != 0) violated("the daemon's audit: " + audit.violations.front());
}

// Nothing of an array's history goes back, and no replica goes with what its home lacks.
void Invariants::check_changes(World& world) {
  std::map<std::uint64_t, Seen> now;
  for (const Array* array : world.broker.catalog().all()) {
    const Numbers& numbers = world.numbers_of(array->id);
    now[wire::to_int(array->id)] = {array->board->writer.load(),
                                    array->rare().home.value_or(wire::ArrayId{0}), array->withdrawn,
                                    array->layout().most > 1 || numbers.begun == numbers.published};
  }
  for (const auto& [id, before] : arrays_) {
    const auto after = now.find(id);
    const bool there = after != now.end();
    if (there) {
      const std::uint64_t word = after->second.writer_word;
      const std::uint64_t generation = wire::writer_generation_of(word);
      const std::uint64_t old = wire::writer_generation_of(before.writer_word);
      const bool same_row = wire::writer_row_of(word) == wire::writer_row_of(before.writer_word);
      require(generation > old || (generation == old && same_row),
              "each change of the writer has its own generation");
      require(after->second.withdrawn || !before.withdrawn, "what was withdrawn stays so");
    }
    const bool goes = !there || after->second.withdrawn;
    const auto home = now.find(wire::to_int(before.home));
    if (!goes || before.withdrawn || home == now.end() || home->second.withdrawn) continue;
    const Numbers& replica = world.numbers_of(wire::ArrayId{id});
    require(replica.uncertain || replica.spoilt || world.numbers_of(before.home).spoilt ||
                !before.whole || world.numbers_of(before.home).published >= replica.published,
            "a replica goes when its home has all that it has");
  }
  arrays_ = std::move(now);

  const server::Totals& totals = world.broker.totals();
  require(totals.sessions_opened == world.books.sessions_opened &&
              totals.sessions_evicted == world.books.sessions_evicted &&
              totals.arrays_created == world.books.arrays_created,
          "what happens is counted");
  require(totals.versions >= totals_.versions && totals.slots_added >= totals_.slots_added,
          "counts never go back");
  totals_ = totals;
  require(world.broker.history().newest() >= newest_event_, "history goes on");
  newest_event_ = world.broker.history().newest();
}

// A limit that has been lowered below what there is lets nothing grow.
void Invariants::check_limits(const World& world) {
  const auto within = [](std::uint64_t now, std::uint64_t before, std::uint64_t limit) {
    return limit == 0 || now <= limit || now <= before;
  };
  const Usage& limits = world.setup.limits.per_uid;
  const std::uint64_t supply = world.setup.limits.supply.descriptors;
  Usage all;
  Usage all_before;
  for (const auto& [uid, account] : world.broker.quota().accounts()) {
    const Usage used = account.usage();
    Usage& before = usage_[{"", uid}];
    // One connection beside those of his sessions is his whatever he has.
    const auto found = world.books.connections.find(uid);
    const bool has_one = found != world.books.connections.end() && found->second > used.sessions;
    const std::uint64_t descriptors =
        used.descriptors -
        std::min(used.descriptors, has_one ? server::ConnectionCharges::kDescriptors : 0);
    require(within(used.arrays, before.arrays, limits.arrays) &&
                within(used.sessions, before.sessions, limits.sessions) &&
                within(descriptors, before.descriptors, limits.descriptors),
            "nobody has more than his quota");
    if (uid != 0) {
      all.descriptors += descriptors;
      all_before.descriptors += before.descriptors;
    }
    before = used;
  }
  require(within(all.descriptors, all_before.descriptors, supply / 8 * 7),
          "users leave an eighth of the daemon's descriptors to root");
  for (const auto& [name, device] : world.broker.devices().all()) {
    const bool on_gpu = name == kGpu;
    for (const auto& [uid, account] : device.quota.accounts()) {
      const Usage used = account.usage();
      Usage& before = usage_[{name, uid}];
      require(within(used.bytes, before.bytes,
                     on_gpu ? world.setup.gpu_limits.uid_bytes : limits.bytes),
              "nobody has more bytes than his quota");
      before = used;
    }
    const auto& memory = on_gpu ? world.setup.gpu_limits.memory : world.setup.limits.memory;
    std::uint64_t& before = memory_bytes_[name];
    require(within(device.segments.memory_bytes(), before, memory.memory_bytes),
            "the daemon takes no more memory than its limit");
    before = device.segments.memory_bytes();
    require(device.segments.warm_bytes() <= memory.warm_bytes,
            "no more memory is kept warm than the settings say");
  }
}

void Invariants::check_end(const World& world) {
  require(world.broker.idle(), "nothing is left where everybody has gone");
  require(world.memory.live() == PlainMemory::Live{world.books.name_board ? 1U : 0U, 0},
          "all memory is given back");
  require(world.gpu.segments == 0, "all of the GPU is given back");
  require(world.broker.added_slots() == 0, "no slot is left");
  check_audit(world);
  const auto nothing = [](const server::Quota& quota) {
    return std::ranges::all_of(quota.accounts(),
                               [](const auto& one) { return one.second.usage() == Usage{}; });
  };
  require(nothing(world.broker.quota()), "every account is at zero");
  for (const auto& [name, device] : world.broker.devices().all()) {
    require(nothing(device.quota), "every account of a device is at zero");
    require(device.segments.memory_bytes() == 0, "no memory of a device is in the books");
  }
}

namespace {

// FNV-1a, of words.
class Digest {
 public:
  void add(std::uint64_t word) {
    for (int bit = 0; bit < 64; bit += 8) hash_ = (hash_ ^ (word >> bit & 0xff)) * 0x100000001b3;
  }
  std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace

std::uint64_t digest_of(const World& world) {
  Digest digest;
  for (const Array* array : world.broker.catalog().all()) {
    for (const std::uint64_t word :
         {wire::to_int(array->id), array->board->writer.load(),
          std::uint64_t{array->board->event_count.load()},
          world.broker.writer_ownership().current_row(*array).publication.load()}) {
      digest.add(word);
    }
    for (const wire::FileRange& slot : array->slots) {
      digest.add(wire::to_int(slot.file));
      digest.add(slot.offset);
    }
    for (const wire::SessionId id : array->members) digest.add(wire::to_int(id));
  }
  for (const auto& process : world.processes) {
    digest.add(wire::to_int(process->session));
    for (const auto& [number, mapped] : process->mapped()) digest.add(number);
  }
  digest.add(world.broker.history().newest());
  digest.add(world.memory.live().files);
  digest.add(world.memory.live().segment_bytes);
  return digest.value();
}

}  // namespace memlease::simulation
