// Arrays that are created, opened, left and withdrawn; replicas; names that are listed and waited
// for.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/core/array_collector.h"
#include "tests/simulation/command.h"
#include "tests/simulation/violation.h"
#include "wire/error.h"

namespace memlease::simulation {
namespace {

using server::Broker;
using server::SegmentPool;
using wire::code_of;
using wire::ErrorCode;

constexpr const char* kNames[] = {"a", "b", "c", "run/a", "run/b"};
constexpr std::uint32_t kModes[] = {0600, 0640, 0644, 0660, 0666, 0604};
constexpr std::int64_t kElements[] = {32, 32, 0, 25'600, 1 << 19};

std::string name_of(std::uint32_t number) { return kNames[number % std::size(kNames)]; }

wire::ArraySpec spec_of(const Command& command) {
  wire::ArraySpec spec;
  spec.name = name_of(command.what);
  spec.mode = kModes[command.what / 8 % std::size(kModes)];
  spec.shape = {kElements[command.what / 64 % std::size(kElements)]};
  spec.slots = 1 + command.what / 512 % 3;
  if (spec.slots > 1 && command.how % 4 < 2) spec.max_slots = spec.slots + command.how % 4 * 3;
  if (command.how % 5 == 0) spec.lifetime = wire::Lifetime::kPersistent;
  if (command.how % 7 == 0) spec.writer = wire::Writer::kExclusive;
  if (command.how % 6 == 0) spec.device = kGpu;
  return spec;
}

struct State {
  std::size_t memberships = 0;
  std::uint64_t arrays = 0;
  std::uint64_t bytes = 0;
};

State state_of(const World& world, const server::Session& session, const std::string& device) {
  const uid_t uid = session.peer.uid;
  const auto found = world.broker.devices().all().find(device);
  return {session.memberships.size(), world.broker.quota().used_by(uid).arrays,
          found->second.quota.used_by(uid).bytes};
}

// Fewer than before: an array that went with a session has been ended for the name.
void check_refusal(const World& world, const absl::Status& status, const State& before,
                   const State& after) {
  require(after.memberships <= before.memberships && after.arrays <= before.arrays &&
              after.bytes <= before.bytes,
          "a call that is refused has changed nothing");
  const ErrorCode code = code_of(status);
  require((code == ErrorCode::kDaemonUnavailable) == world.broker.draining(),
          "a daemon that ends opens nothing, and says so");
  require(code != ErrorCode::kInternal, "the daemon has no defect");
}

Request::Lacking answer(World& world, Process& process, Broker::Creation creation) {
  if (const auto* growth = std::get_if<SegmentPool::Growth>(&creation)) return *growth;
  world.answer_open(process, std::get<Broker::Opened>(creation));
  return std::nullopt;
}

std::uint64_t place_bytes(const World& world, const std::string& device, std::uint64_t bytes) {
  return world.broker.devices().all().find(device)->second.segments.place_bytes(bytes);
}

void create(World& world, const Command& command) {
  Process* const process = world.connected(command.who);
  if (process == nullptr) return;
  const wire::ArraySpec spec = spec_of(command);
  const bool exist_ok = command.how % 3 == 0;
  server::SharedAttributes attributes;
  if (command.how % 9 == 0) {
    attributes = std::make_shared<const wire::Attributes>(wire::Attributes{{"unit", "m"}});
  }
  Charged charged{process->peer.uid, spec.device, 1,
                  place_bytes(world, spec.device, wire::size_bytes_of(spec)) * spec.slots,
                  attributes == nullptr ? 0 : wire::memory_bytes_of(*attributes)};
  const auto call = [&world, spec, exist_ok, attributes](
                        Process& caller, server::Session& session) -> Request::Lacking {
    const State before = state_of(world, session, spec.device);
    auto creation = world.broker.create(session, spec, exist_ok, attributes);
    if (creation.ok()) return answer(world, caller, *std::move(creation));
    check_refusal(world, creation.status(), before, state_of(world, session, spec.device));
    return creation.status();
  };
  world.ask({process->session, std::move(charged), call}, command.how % 8 != 1);
}

void open(World& world, const Command& command) {
  Process* const process = world.connected(command.who);
  if (process == nullptr) return;
  const std::string name = name_of(command.what);
  std::optional<uid_t> owner;
  if (command.how % 8 == 0) owner = 1000 + command.how / 8 % 3;
  const server::Array* const array = world.broker.catalog().find(name);
  ErrorCode expected = ErrorCode::kNotFound;
  if (world.broker.draining()) {
    expected = ErrorCode::kDaemonUnavailable;
  } else if (!world.has_memory) {
    expected = ErrorCode::kOutOfMemory;
  } else if (array != nullptr && world.visible(process->peer, *array)) {
    expected = owner && *owner != array->domain.uid ? ErrorCode::kDenied : ErrorCode{};
  }
  const auto opened = world.broker.open(world.session_of(*process), name, owner);
  require(opened.ok() ? expected == ErrorCode{} : code_of(opened.status()) == expected,
          "an array is opened by whoever may read it, and unknown to everybody else");
  if (opened.ok()) world.answer_open(*process, *opened);
}

void open_replica(World& world, const Command& command) {
  Process* const process = world.connected(command.who);
  OpenedArray* const home = process == nullptr ? nullptr : World::opened(*process, command.what);
  if (home == nullptr) return;
  const wire::ArrayId id = home->id;
  if (command.how % 4 == 0) {
    const auto opened =
        world.broker.open_replica(world.session_of(*process), id, command.how / 4 % 2);
    if (opened.ok()) world.answer_open(*process, *opened);
    return;
  }
  const std::string device = command.how % 4 == 1 ? "host" : kGpu;
  Charged charged{0, device, 1, 0, 0};
  if (const server::Array* const array = world.array(id)) {
    charged.uid = array->domain.uid;
    charged.bytes = place_bytes(world, device, array->slot_bytes) * array->kind->slots;
  }
  const auto call = [&world, id, device](Process& caller,
                                         server::Session& session) -> Request::Lacking {
    auto creation = world.broker.open_replica(session, id, device);
    if (!creation.ok()) return creation.status();
    return answer(world, caller, *std::move(creation));
  };
  world.ask({process->session, std::move(charged), call}, command.how % 8 != 1);
}

// By numbers, some of which are asked for twice.
void leave(World& world, const Command& command) {
  Process* const process = world.connected(command.who);
  OpenedArray* const opened = process == nullptr ? nullptr : World::opened(*process, command.what);
  if (opened == nullptr) return;
  const std::uint32_t opens = command.how % 2 == 0 ? opened->opens : 1;
  const std::uint64_t number = process->last_departure + 1;
  server::Session& session = world.session_of(*process);
  const auto left = world.broker.leave_once(session, opened->id, opens, number);
  const bool in_use = !opened->leases.empty() || opened->write;
  if (!left.ok()) {
    require(code_of(left) == ErrorCode::kBusy && (in_use || opened->on_gpu || process->lies),
            "who uses nothing of an array may leave it");
    return;
  }
  require(opens < opened->opens || !in_use, "who uses an array is a member");
  process->last_departure = number;
  session.done_departures.note_answered(number > 4 ? number - 4 : 1);
  opened->opens -= opens;
  if (command.how % 3 == 0) {
    const auto membership = session.memberships.find(opened->id);
    const bool there = membership != session.memberships.end();
    const std::uint32_t before = there ? membership->second.opens : 0;
    require(world.broker.leave_once(session, opened->id, opens, number).ok() &&
                (!there || membership->second.opens == before),
            "a departure that is asked for twice is done once");
  }
  if (opened->opens == 0) process->arrays.erase(wire::to_int(opened->id));
}

void withdraw(World& world, const Command& command) {
  const Process* const process = world.connected(command.who);
  const bool by_root = process == nullptr || command.how % 8 == 0;
  const server::PeerIdentity viewer = by_root ? root() : process->peer;
  std::string name = name_of(command.what);
  if (command.how % 4 == 1) name = wire::name_of_replica(name, kGpu);
  const server::Array* const array = world.broker.catalog().find(name);
  const bool known = array != nullptr && world.visible(viewer, *array);
  const bool may = known && rights_of(viewer, array->domain) == 6;
  const bool is_replica = known && array->rare().home;
  const auto status = world.broker.withdraw(viewer, name);
  const ErrorCode code = status.ok() ? ErrorCode{} : code_of(status);
  if (!known) require(code == ErrorCode::kNotFound, "what one may not read is unknown");
  if (known && !may) require(code == ErrorCode::kDenied, "who may not write does not withdraw");
  if (may && !is_replica) require(status.ok(), "who may write an array may withdraw it");
  if (may && is_replica) require(status.ok() || code == ErrorCode::kBusy, "a replica may be busy");
}

void list(World& world, const Command& command) {
  const Process* const process = world.connected(command.who);
  const server::PeerIdentity viewer = process == nullptr ? root() : process->peer;
  const bool with_replicas = command.how % 2 == 0;
  std::vector<std::string> expected;
  for (const server::Array* array : world.broker.catalog().named()) {
    if ((with_replicas || !array->rare().home) && world.visible(viewer, *array))
      expected.push_back(array->name);
  }
  std::vector<std::string> listed;
  using Kinds = server::ArrayCollector::Kinds;
  server::ArrayCollector collector(viewer, with_replicas ? Kinds::kNamed : Kinds::kHomes);
  while (!collector.done()) {
    for (auto& found : collector.step(world.broker)) listed.push_back(std::move(found.name));
  }
  require(listed == expected, "a list has the names of what its viewer may read, in their order");
}

// An array of the name or the place of a count, which a process maps and cannot write.
void wait_for_name(World& world, const Command& command) {
  Process* const process = world.connected(command.who);
  if (process == nullptr) return;
  const auto count = world.broker.creations(name_of(command.what));
  if (!count.ok()) return;
  world.books.name_board = true;
  const Process::Mapped* const page = process->map(count->at.file);
  require(page == nullptr || !page->writable, "the daemon alone writes the board of names");
}

}  // namespace

std::span<const Kind> array_kinds() {
  static constexpr Kind kKinds[] = {
      {"create", 22, create},
      {"open", 26, open},
      {"open a replica", 7, open_replica},
      {"leave", 8, leave},
      {"withdraw", 5, withdraw},
      {"list", 3, list},
      {"wait for a name", 2, wait_for_name},
  };
  return kKinds;
}

}  // namespace memlease::simulation
