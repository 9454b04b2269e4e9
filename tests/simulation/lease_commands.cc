// Versions that are read and written, writer ownership that moves, and versions that are copied
// between the places of an array: by the client's half of the slot protocol.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "tests/simulation/command.h"
#include "tests/simulation/violation.h"
#include "tests/support/slot_wait_of.h"
#include "wire/error.h"

namespace memlease::simulation {
namespace {

using internal::ReadAttempt;
using internal::ReadOutcome;
using internal::SlotWait;
using internal::SlotWriter;
using internal::WriteAttempt;
using internal::WriteOutcome;
using server::WriterAnswer;
using wire::code_of;
using wire::ErrorCode;

// A process that lives and an array that it has open.
struct User {
  Process* process = nullptr;
  OpenedArray* array = nullptr;
};

// One of those for whom the command makes sense: else most commands would do nothing.
template <typename Fits>
User user_of(const World& world, const Command& command, Fits fits) {
  std::vector<User> users;
  for (const auto& process : world.processes) {
    if (process->lies) continue;
    for (auto& [id, array] : process->arrays) {
      if (fits(array)) users.push_back({process.get(), &array});
    }
  }
  return users.empty() ? User{} : users[(command.who * 31 + command.what) % users.size()];
}

bool any(const OpenedArray& /*array*/) { return true; }
bool has_lease(const OpenedArray& array) { return !array.leases.empty(); }
bool has_offer(const OpenedArray& array) { return array.offer.has_value(); }
bool writes(const OpenedArray& array) { return array.write.has_value(); }
bool may_begin(const OpenedArray& array) { return array.writer && !array.write && !array.offer; }

// ---- Reads.

bool subscribe(World& world, Process& process, OpenedArray& array) {
  if (array.reader) return true;
  if (!process.connected) return false;
  const auto subscribed =
      world.with_room([&] { return world.broker.subscribe(world.session_of(process), array.id); });
  if (!subscribed.ok()) return false;
  std::byte* const row = process.own_row(subscribed->row);
  if (row == nullptr) return false;
  array.reader_row = reinterpret_cast<wire::ReaderRow*>(row);
  array.reader.emplace(*array.board, array.id, array.layout, *array.reader_row, process.rows);
  return true;
}

ReadAttempt acquire(World& world, const OpenedArray& opened, internal::SlotReader& reader,
                    std::uint64_t version) {
  const ReadAttempt attempt = reader.acquire(version, 0);
  if (attempt.outcome != ReadOutcome::kAcquired) return attempt;
  const server::Array* const array = world.array(opened.id);
  require(array != nullptr && !array->withdrawn, "what can be read has not been withdrawn");
  require(attempt.slot < array->slots.size(), "a slot that is read is there");
  require(version == 0 || attempt.version == version, "a read has the version that it asked for");
  const Numbers& numbers = world.numbers_of(opened.id);
  require(
      numbers.uncertain || numbers.spoilt || version != 0 || attempt.version == numbers.published,
      "a read has the newest version");
  return attempt;
}

void read(World& world, const Command& command) {
  const auto [process, array] = user_of(world, command, any);
  if (array == nullptr || !subscribe(world, *process, *array)) return;
  const std::uint64_t newest = world.numbers_of(array->id).published;
  const std::uint64_t version =
      command.how % 3 != 0 ? 0 : newest - std::min<std::uint64_t>(newest, command.how / 3 % 3);
  const ReadAttempt attempt = acquire(world, *array, *array->reader, version);
  if (attempt.outcome != ReadOutcome::kAcquired) return;
  array->leases.push_back(
      {attempt.slot, attempt.version, world.array(array->id)->slots[attempt.slot]});
}

void release(World& world, const Command& command) {
  const auto [process, array] = user_of(world, command, has_lease);
  if (array == nullptr) return;
  const auto lease =
      array->leases.begin() + static_cast<std::ptrdiff_t>(command.how % array->leases.size());
  array->reader->release(lease->slot);
  array->leases.erase(lease);
}

// ---- Writer ownership.

// One question. What is offered is copied at once, and confirmed later.
std::optional<WriterAnswer::State> ask(World& world, Process& process, OpenedArray& array) {
  if (!process.connected || array.write) return std::nullopt;
  const auto answer = world.with_room(
      [&] { return world.broker.acquire_writer(world.session_of(process), array.id); });
  if (!answer.ok()) return std::nullopt;
  if (answer->turn.at.file != wire::FileId{0}) world.books.name_board = true;
  const server::Array& asked = *world.array(array.id);
  require(rights_of(process.peer, asked.domain) == 6, "nobody owns an array that he may not write");
  std::byte* const row = process.own_row(answer->row);
  if (row == nullptr) return std::nullopt;
  if (!array.writer) {
    array.writer_row = reinterpret_cast<wire::WriterRow*>(row);
    array.writer.emplace(*array.board, array.id, array.layout, answer->row, *array.writer_row,
                         process.rows);
  }
  array.offer.reset();
  if (answer->state == WriterAnswer::State::kGranted) {
    require(asked.writer == process.session, "ownership is granted to whoever has it");
  }
  if (answer->state != WriterAnswer::State::kOffered) return answer->state;
  require(answer->offer > world.books.last_offer, "an offer's number is used once");
  world.books.last_offer = answer->offer;
  array.offer = answer->offer;
  array.copied = false;
  const wire::WriterRow* const from = process.find_writer_row(answer->from);
  if (from == nullptr) return std::nullopt;
  array.writer->adopt(*from);
  array.copied = true;
  return answer->state;
}

bool confirm(World& world, Process& process, OpenedArray& array) {
  if (!process.connected || !array.offer || !array.copied) return false;
  const std::uint64_t offer = *std::exchange(array.offer, std::nullopt);
  const auto status = world.broker.confirm_writer(world.session_of(process), array.id, offer);
  if (!status.ok()) return false;
  require(world.array(array.id)->writer == process.session, "who confirms is the writer");
  return true;
}

bool become_writer(World& world, Process& process, OpenedArray& array) {
  const auto state = ask(world, process, array);
  if (state == WriterAnswer::State::kOffered) return confirm(world, process, array);
  return state == WriterAnswer::State::kGranted;
}

void ask_to_write(World& world, const Command& command) {
  const auto [process, array] = user_of(world, command, any);
  if (array == nullptr) return;
  if (command.how % 2 == 0) {
    become_writer(world, *process, *array);
  } else {
    ask(world, *process, *array);
  }
}

void confirm_offer(World& world, const Command& command) {
  const auto [process, array] = user_of(world, command, has_offer);
  if (array != nullptr) confirm(world, *process, *array);
}

// Of an offer that nobody made to this process.
void confirm_wrong_offer(World& world, const Command& command) {
  const auto [process, array] = user_of(world, command, any);
  if (array == nullptr || !process->connected || !array->writer) return;
  const std::uint64_t offer = world.books.last_offer + command.how % 2;
  if (array->offer == offer) return;
  require(!world.broker.confirm_writer(world.session_of(*process), array->id, offer).ok(),
          "an offer is confirmed by whoever got it, once, and while it stands");
}

void cancel(World& world, const Command& command) {
  const auto [process, array] = user_of(world, command, any);
  if (array == nullptr || !process->connected) return;
  array->offer.reset();
  world.broker.cancel_writer(world.session_of(*process), array->id).IgnoreError();
}

// ---- Writes.

// Asks for one more slot, whose memory may come later than the writer's patience lasts.
testing::SlotWaitOf wait_of(World& world, Process& process, const OpenedArray& array,
                            bool at_once) {
  testing::SlotWaitOf wait;
  wait.on_grow = [&world, &process, &array, at_once](std::uint32_t slots) {
    const server::Array* const there = world.array(array.id);
    if (!process.connected || there == nullptr) return SlotWait::Grown::kRefused;
    const std::size_t before = there->slots.size();
    const std::string& device = there->kind->device;
    const auto& segments = world.broker.devices().all().find(device)->second.segments;
    const auto call = [&world, id = array.id, slots](Process& /*process*/,
                                                     server::Session& session) {
      return world.broker.add_slot(session, id, slots);
    };
    world.ask({process.session,
               {there->domain.uid, device, 0, segments.place_bytes(there->slot_bytes), 0},
               call},
              at_once);
    return there->slots.size() > before ? SlotWait::Grown::kAdded : SlotWait::Grown::kRefused;
  };
  return wait;
}

void begin_write(World& world, const Command& command) {
  const auto [process, array] = user_of(world, command, may_begin);
  if (array == nullptr) return;
  testing::SlotWaitOf wait = wait_of(world, *process, *array, command.how % 4 != 0);
  const WriteAttempt attempt = array->writer->begin(wait);
  if (attempt.outcome == WriteOutcome::kReady) world.begun(*process, *array, attempt, true);
}

void publish(World& world, const Command& command) {
  const auto [process, array] = user_of(world, command, writes);
  if (array == nullptr) return;
  const std::uint32_t slot = array->write->slot;
  world.publish(*array);
  if (!array->on_gpu || command.how % 2 == 0) return;
  // What was written is on its way there.
  world.record_pending(array->id, slot);
}

void drop(World& world, const Command& command) {
  const auto [process, array] = user_of(world, command, writes);
  if (array != nullptr) world.drop(*array);
}

// ---- Places of one array.

struct HomeAndReplica {
  Process* process = nullptr;
  OpenedArray* home = nullptr;
  OpenedArray* replica = nullptr;
};

// A replica that the process has open, with its home.
HomeAndReplica places_of(const World& world, const Command& command) {
  HomeAndReplica places{world.connected(command.who), nullptr, nullptr};
  if (places.process == nullptr || places.process->lies) return places;
  for (auto& [id, opened] : places.process->arrays) {
    const server::Array* const array = world.array(opened.id);
    if (array == nullptr || !array->rare().home) continue;
    places.home = places.process->find(*array->rare().home);
    places.replica = &opened;
    if (places.home != nullptr) break;
  }
  if (places.home == nullptr) places.replica = nullptr;
  return places;
}

void copy(World& world, Process& process, OpenedArray& from, OpenedArray& to) {
  if (!subscribe(world, process, from) || !become_writer(world, process, to)) return;
  const ReadAttempt read = acquire(world, from, *from.reader, 0);
  if (read.outcome != ReadOutcome::kAcquired) return;
  to.writer->note_copies_only();
  testing::SlotWaitOf wait = wait_of(world, process, to, true);
  const WriteAttempt attempt = to.writer->begin(wait, nullptr, {.copied = read.version});
  if (attempt.outcome == WriteOutcome::kReady) {
    world.begun(process, to, attempt, false);
    world.publish(to);
  }
  from.reader->release(read.slot);
}

void copy_to_replica(World& world, const Command& command) {
  const HomeAndReplica places = places_of(world, command);
  if (places.replica == nullptr) return;
  if (command.how % 3 == 0) {
    copy(world, *places.process, *places.replica, *places.home);
  } else {
    copy(world, *places.process, *places.home, *places.replica);
  }
}

// The number is the home's, whose writer this process is meanwhile.
void write_on_replica(World& world, const Command& command) {
  const auto [process, home, replica] = places_of(world, command);
  if (replica == nullptr || home->write || !become_writer(world, *process, *home) ||
      !become_writer(world, *process, *replica)) {
    return;
  }
  const auto status = world.broker.write_elsewhere(world.session_of(*process), replica->id);
  if (!status.ok()) return;
  if (home->writer->claim_number() != WriteOutcome::kReady) return;
  Numbers& numbers = world.numbers_of(home->id);
  testing::SlotWaitOf wait = wait_of(world, *process, *replica, true);
  const WriteAttempt attempt = replica->writer->begin(wait, nullptr, {.home = &*home->writer});
  if (attempt.outcome == WriteOutcome::kReady) {
    require(attempt.version > numbers.begun || numbers.spoilt,
            "a number for a replica is used once");
    numbers.begun = attempt.version;
    world.begun(*process, *replica, attempt, false);
    world.publish(*replica);
  }
  home->writer->end_number();
}

}  // namespace

std::span<const Kind> lease_kinds() {
  static constexpr Kind kKinds[] = {
      {"read", 26, read},
      {"release", 16, release},
      {"ask for writer ownership", 22, ask_to_write},
      {"confirm the offer", 8, confirm_offer},
      {"confirm a wrong offer", 2, confirm_wrong_offer},
      {"cancel the question", 2, cancel},
      {"begin a write", 34, begin_write},
      {"publish", 26, publish},
      {"drop", 5, drop},
      {"copy to a replica, or home", 5, copy_to_replica},
      {"write on a replica", 4, write_on_replica},
  };
  return kKinds;
}

}  // namespace memlease::simulation
