#include "tests/simulation/world.h"

#include <algorithm>
#include <limits>

#include "fmt/format.h"
#include "tests/simulation/violation.h"
#include "tests/support/let_go.h"
#include "wire/error.h"

namespace memlease::simulation {

using server::SegmentPool;
using wire::ErrorCode;

server::PeerIdentity root() { return {1, 0, 0, {}, "root"}; }

World::World(const Setup& start, Lie planted)
    : lie(planted),
      setup(start),
      broker({memory, memory, clock,
              [this](auto token) {
                for (std::uint8_t& byte : token) byte = ++last_random_;
              },
              [this](uid_t, auto unused) { garbage.push_back(std::move(unused)); },
              [this] { return has_memory; }},
             start.limits) {
  if (lie == Lie::kShortSegments) memory.make_short_segments();
  broker.add_device(gpu, setup.gpu_limits);
}

bool World::give_back() {
  if (lie == Lie::kKeepsGarbage) return false;
  testing::let_go(garbage);
  return true;
}

void World::finish() {
  memory.never_refuse();
  has_memory = true;
  let_gpu_go_on();
  while (!processes.empty()) exit(*processes.front());
  while (!waiting.empty()) grow(0);
  while (broker.work_off_ends()) {
  }
  std::vector<std::string> names;
  for (const server::Array* array : broker.catalog().named()) {
    if (!array->rare().home) names.push_back(array->name);
  }
  for (const std::string& name : names) {
    require(broker.withdraw(root(), name).ok(), "root may withdraw any array");
  }
  broker.give_back_unused();
  setup.limits.memory.warm_bytes = 0;
  setup.gpu_limits.memory.warm_bytes = 0;
  broker.set_limits(setup.limits, setup.gpu_limits);
  for (auto& [uid, connections] : books.connections) {
    for (; connections != 0; --connections) broker.disconnected(uid);
  }
}

// ---- Whom a command means.

Process* World::living(std::uint32_t number) const {
  return processes.empty() ? nullptr : processes[number % processes.size()].get();
}

Process* World::connected(std::uint32_t number) const {
  for (std::size_t i = 0; i < processes.size(); ++i) {
    Process* const process = processes[(number + i) % processes.size()].get();
    if (process->connected) return process;
  }
  return nullptr;
}

Process* World::process_of(wire::SessionId session) const {
  const auto found = std::ranges::find_if(
      processes, [&](const auto& process) { return process->session == session; });
  return found == processes.end() ? nullptr : found->get();
}

OpenedArray* World::opened(Process& process, std::uint32_t number) {
  if (process.arrays.empty()) return nullptr;
  return &std::next(process.arrays.begin(),
                    static_cast<std::ptrdiff_t>(number % process.arrays.size()))
              ->second;
}

server::Session& World::session_of(const Process& process) const {
  server::Session* const session = broker.sessions().find(process.session);
  require(session != nullptr, "a process that lives has its session");
  return *session;
}

// ---- Calls.

bool World::makes_room(const absl::Status& status, bool& may_wait) {
  const ErrorCode code = wire::code_of(status);
  if (code != ErrorCode::kQuotaExceeded && code != ErrorCode::kOutOfMemory) return false;
  if (broker.work_off_ends()) return true;
  return std::exchange(may_wait, false) && broker.files().going() != 0 && give_back();
}

bool World::round(Request request) {
  Process* const process = process_of(request.session);
  if (process == nullptr || !process->connected) return false;
  const auto lacks =
      with_room([&] { return request.call(*process, session_of(*process)); }, request.may_wait);
  if (!lacks.ok() || !*lacks) return false;
  waiting.push_back({request, **lacks});
  return true;
}

void World::ask(const Request& request, bool at_once) {
  const std::size_t before = waiting.size();
  round(request);
  while (at_once && waiting.size() > before) grow(waiting.size() - 1);
}

// As Daemon::grow().
void World::grow(std::size_t number) {
  const Waiting call = std::move(waiting[number]);
  waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(number));
  const SegmentPool::Growth& growth = call.growth;
  const bool on_host = growth.device == "host";
  const auto make = [&] {
    return on_host ? memory.create_segment(growth.size_bytes, wire::ReserveKept::kAll)
                   : gpu.create_segment(growth.size_bytes, wire::ReserveKept::kAll);
  };
  auto made = make();
  while (!made.ok() && (broker.work_off_ends() || (broker.files().going() != 0 && give_back()))) {
    made = make();
  }
  if (made.ok() && on_host) memory.last_segment().domain = growth.domain;
  if (broker.add_memory(growth, std::move(made)).ok()) round(call.request);
  broker.return_surplus(growth.device);
}

void World::answer_open(Process& process, const server::Broker::Opened& opened) {
  const server::Array& array = *opened.array;
  const unsigned rights = rights_of(process.peer, array.domain);
  require((rights & 4) != 0, "nobody opens an array that he may not read");
  require(opened.may_write == (rights == 6), "who may write an array is told so, and nobody else");
  if (opened.created) {
    require(wire::to_int(array.id) > books.last_array, "an array's id is used once");
    books.last_array = wire::to_int(array.id);
    ++books.arrays_created;
  }
  OpenedArray& mine = process.arrays[wire::to_int(array.id)];
  ++mine.opens;
  if (mine.board != nullptr) return;
  mine.id = array.id;
  mine.layout = array.layout();
  mine.on_gpu = !wire::is_host(*array.kind);
  const Process::Mapped* const page = process.map(array.board_at.file);
  bool mapped = page != nullptr;
  for (const wire::FileRange& slot : array.slots) {
    const Process::Mapped* const segment = mine.on_gpu ? nullptr : process.map(slot.file);
    mapped = mapped && (segment != nullptr || mine.on_gpu);
    if (segment == nullptr) continue;
    require(segment->file->domain == array.domain, "an array is in segments of its own domain");
    require(slot.offset + array.slot_bytes <= segment->file->size_bytes,
            "an array is inside of its segment");
  }
  if (!mapped) {  // the client gives up, and says so
    require(broker.leave(session_of(process), array.id, mine.opens).ok(), "who opens may leave");
    process.arrays.erase(wire::to_int(mine.id));
    return;
  }
  mine.board =
      reinterpret_cast<const wire::BoardRecord*>(page->file->bytes() + array.board_at.offset);
}

void World::cut(Process& process) {
  if (!process.connected) return;
  process.connected = false;
  require(broker.hang_up(process.session, server::Farewell::kNone), "who is cut has not exited");
}

void World::record_pending(wire::ArrayId id, std::uint32_t slot) {
  const server::EventSet& events = array(id)->rare().write_events;
  broker.rows().files().change(events.at(), [slot](std::byte* words) {
    ++reinterpret_cast<wire::EventWords*>(words)[slot].recorded;
  });
}

void World::let_gpu_go_on() {
  for (const server::Array* array : broker.catalog().all()) {
    array->rare().write_events.release(broker.rows().files());
  }
}

void World::exit(Process& process) {
  cut(process);
  for (const server::Array* array : broker.catalog().all()) {
    if (array->writer != process.session || array->rare().write_events.all_complete()) continue;
    numbers_of(array->id).uncertain = true;
  }
  const wire::SessionId session = process.session;
  forget(process);
  broker.exited(session);
}

void World::forget(const Process& process) {
  std::erase_if(processes, [&](const auto& one) { return one.get() == &process; });
}

// ---- What must be so.

bool World::visible(const server::PeerIdentity& viewer, const server::Array& array) const {
  const server::Array* const home = array.rare().home ? this->array(*array.rare().home) : &array;
  const bool goes = home != nullptr && home->kind->lifetime == wire::Lifetime::kSession &&
                    process_of(home->creator) == nullptr;
  return !array.withdrawn && !goes && (rights_of(viewer, array.domain) & 4) != 0;
}

void World::begun(Process& process, OpenedArray& opened, const internal::WriteAttempt& attempt,
                  bool own_number) {
  const server::Array* const array = this->array(opened.id);
  require(array != nullptr, "an array that is written is there");
  require(attempt.slot < array->slots.size(), "a slot that is written is there");
  require(rights_of(process.peer, array->domain) == 6, "nobody writes an array that he may not");
  for (const auto& other : processes) {
    const OpenedArray* const theirs = other->find(opened.id);
    if (theirs == nullptr) continue;
    require(!theirs->write, "one process writes an array at a time");
    for (const Lease& lease : theirs->leases) {
      if (lease.slot != attempt.slot) continue;
      violated(fmt::format("array {}: slot {} is written while session {} reads version {} there",
                           wire::to_int(opened.id), attempt.slot, wire::to_int(other->session),
                           lease.version));
    }
  }
  Numbers& numbers = numbers_of(opened.id);
  if (own_number && attempt.version <= numbers.begun && !numbers.spoilt) {
    violated(fmt::format("array {}: number {} is used again after {}", wire::to_int(opened.id),
                         attempt.version, numbers.begun));
  }
  numbers.begun = std::max(numbers.begun, attempt.version);
  const wire::FileRange place = array->slots[attempt.slot];
  bytes_at(place) = {opened.id, attempt.version, false};
  opened.write = Lease{attempt.slot, attempt.version, place};
}

void World::publish(OpenedArray& opened) {
  const Lease write = *std::exchange(opened.write, std::nullopt);
  Numbers& numbers = numbers_of(opened.id);
  require(write.version > numbers.published || numbers.uncertain || numbers.spoilt,
          "versions come in the order of their numbers");
  numbers.published = std::max(numbers.published, write.version);
  bytes_at(write.place).complete = true;
  opened.writer->publish(write.slot, write.version);
}

void World::drop(OpenedArray& opened) {
  const Lease write = *std::exchange(opened.write, std::nullopt);
  bytes_at(write.place).version = 0;
  opened.writer->drop(write.slot);
}

}  // namespace memlease::simulation
