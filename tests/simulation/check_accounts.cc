// Accounts: each sum is that of what is there, by a walk over all of it.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "server/core/connection_charges.h"
#include "tests/simulation/invariants.h"
#include "tests/simulation/violation.h"

namespace memlease::simulation {
namespace {

using server::Array;
using server::Session;
using server::Usage;

// What a session takes: docs/decisions/0039-descriptors-are-charged.md.
constexpr std::uint64_t kOfSession = 7;

constexpr uid_t kUsers[] = {0, 1000, 1001, 1002};

struct Sums {
  std::map<uid_t, Usage> users;                                  // but for bytes
  std::map<std::pair<std::string, uid_t>, std::uint64_t> bytes;  // by device
  std::map<std::string, std::uint64_t> growing;                  // bytes, by device
  std::uint64_t files = 0;
};

// Its own and what holds its pages, and another where somebody has got it to write.
std::uint64_t descriptors_of_pages(const World& world, wire::FileId id) {
  const auto* const file = world.memory.page_at(world.broker.files().data({id, 0}));
  return file->exported_writable ? 3 : 2;
}

void add_arrays(const World& world, Sums& sums) {
  std::set<std::pair<uid_t, std::uint32_t>> pages;
  for (const Array* array : world.broker.catalog().all()) {
    const uid_t uid = array->domain.uid;
    const std::string& device = array->kind->device;
    const auto& segments = world.broker.devices().all().find(device)->second.segments;
    ++sums.users[uid].arrays;
    sums.bytes[{device, uid}] += segments.place_bytes(array->slot_bytes) * array->slots.size();
    if (!array->rare().home) sums.bytes[{"host", uid}] += array->rare().attribute_bytes;
    pages.emplace(uid, wire::to_int(array->board_at.file));
    pages.emplace(uid, wire::to_int((*array->takeover_at).file));
    if (array->own_takeover) pages.emplace(uid, wire::to_int((*array->own_takeover).file));
    if (!array->rare().write_events.empty()) {
      pages.emplace(uid, wire::to_int(array->rare().write_events.at().file));
    }
    for (const wire::FileRange& chunk : array->rare().chunks) {
      pages.emplace(uid, wire::to_int(chunk.file));
    }
  }
  for (const auto& [uid, file] : pages) {
    sums.users[uid].descriptors += descriptors_of_pages(world, wire::FileId{file});
  }
  sums.files += pages.size();
}

void add_sessions(const World& world, Sums& sums) {
  for (const Session* session : world.broker.sessions().all()) {
    Usage& usage = sums.users[session->peer.uid];
    for (const auto& [domain, pages] : session->pages) {
      for (const wire::FileId id : pages->files()) {
        usage.descriptors += descriptors_of_pages(world, id);
      }
      sums.files += pages->files().size();
    }
    if (session->ending) continue;
    ++usage.sessions;
    usage.descriptors += kOfSession;
  }
}

void add_segments(const World& world, Sums& sums) {
  for (const auto& file : world.memory.files()) {
    if (!file->segment) continue;
    sums.users[file->domain->uid].descriptors += file->exported_writable ? 3 : 2;
    ++sums.files;
  }
}

// Calls whose memory is being made have been charged for all of it.
void add_waiting(const World& world, Sums& sums) {
  for (const auto& [request, growth] : world.waiting) {
    const Charged& charged = request.charged;
    sums.users[charged.uid].arrays += charged.arrays;
    sums.bytes[{growth.device, charged.uid}] += charged.bytes;
    sums.bytes[{"host", charged.uid}] += charged.host_bytes;
    if (growth.device == "host") sums.users[charged.uid].descriptors += 2;
    sums.growing[growth.device] += growth.size_bytes;
  }
}

void check_user(const World& world, uid_t uid, const Usage& expected) {
  const Usage used = world.broker.quota().used_by(uid);
  if (used.arrays != expected.arrays || used.sessions != expected.sessions) {
    violated(fmt::format("uid {} has {} arrays and {} sessions, and is charged {} and {}", uid,
                         expected.arrays, expected.sessions, used.arrays, used.sessions));
  }
  const auto found = world.books.connections.find(uid);
  const std::uint64_t connections = found == world.books.connections.end() ? 0 : found->second;
  const std::uint64_t beyond = connections - std::min(connections, expected.sessions);
  const std::uint64_t most =
      expected.descriptors + server::ConnectionCharges::kDescriptors * beyond;
  // Where a limit has been lowered, or others have left less of the supply, a connection is charged
  // once there is room for it.
  const bool may_lack = world.books.limits_changed || world.setup.limits.supply.descriptors != 0;
  const std::uint64_t least = may_lack ? expected.descriptors : most;
  if (used.descriptors < least || used.descriptors > most) {
    violated(
        fmt::format("uid {} has {} descriptors, and is charged {}", uid, most, used.descriptors));
  }
}

bool somebody_imports(const World& world) {
  return std::ranges::any_of(world.broker.sessions().all(), [](const Session* session) {
    return !session->imported_memory.empty();
  });
}

void check_devices(const World& world, const Sums& sums) {
  const auto of = [](const auto& all, const auto& key) {
    const auto found = all.find(key);
    return found == all.end() ? std::uint64_t{0} : found->second;
  };
  for (const auto& [name, device] : world.broker.devices().all()) {
    for (const uid_t uid : kUsers) {
      const std::uint64_t expected = of(sums.bytes, std::pair(name, uid));
      const std::uint64_t used = device.quota.used_by(uid).bytes;
      if (used != expected) {
        violated(
            fmt::format("uid {} has {} bytes on {}, and is charged {}", uid, expected, name, used));
      }
    }
    const std::uint64_t there = name == kGpu ? world.gpu.bytes : world.memory.live().segment_bytes;
    const std::uint64_t expected = there + of(sums.growing, name);
    const std::uint64_t booked = device.segments.memory_bytes();
    // What the daemon has given back is still there for whoever has imported it.
    const bool may_lack = name == kGpu && somebody_imports(world);
    if (booked > expected || (booked < expected && !may_lack)) {
      violated(fmt::format("{} bytes are taken of {}, and the daemon has {} in its books", expected,
                           name, booked));
    }
    require(device.segments.warm_bytes() <= device.segments.memory_bytes(),
            "warm memory is a part of what is taken");
  }
}

}  // namespace

void check_accounts(World& world) {
  Sums sums;
  add_arrays(world, sums);
  add_sessions(world, sums);
  add_segments(world, sums);
  if (world.books.name_board) ++sums.files;
  if (world.memory.live().files != sums.files) {
    violated(fmt::format("the daemon has {} files open, and uses {}", world.memory.live().files,
                         sums.files));
  }
  add_waiting(world, sums);
  for (const uid_t uid : kUsers) check_user(world, uid, sums.users[uid]);
  check_devices(world, sums);
  std::uint64_t added = 0;
  for (const Array* array : world.broker.catalog().all()) added += array->rare().added.size();
  require(world.broker.added_slots() == added, "added slots are counted");
}

}  // namespace memlease::simulation
