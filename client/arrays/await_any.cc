#include "client/arrays/await_any.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "wire/board.h"
#include "wire/error.h"
#include "wire/futex.h"

namespace memlease::internal {
namespace {

// Announces that a thread of this process sleeps on the arrays.
class Sleepers {
 public:
  explicit Sleepers(const std::vector<Awaited>& all) : all_(all) {
    for (const Awaited& awaited : all_) awaited.reader->announce_sleep();
  }
  ~Sleepers() {
    for (const Awaited& awaited : all_) awaited.reader->end_sleep();
  }
  Sleepers(const Sleepers&) = delete;
  Sleepers& operator=(const Sleepers&) = delete;

 private:
  const std::vector<Awaited>& all_;
};

// Each once, though many may wait for one array.
std::set<const SlotReader*> readers_of(const std::vector<Awaited>& all) {
  std::set<const SlotReader*> readers;
  for (const Awaited& awaited : all) readers.insert(awaited.reader);
  return readers;
}

std::optional<std::uint64_t> newest_anywhere(const Awaited& awaited) {
  return awaited.newest_anywhere ? awaited.newest_anywhere() : 0;
}

struct Look {
  bool ready = false;
  std::optional<wire::RowRef> unmapped;  // the writer's row, which has to be fetched first
};

Look look_at(const Awaited& awaited) {
  const OpenArray& array = *awaited.array;
  if (awaited.is_over && awaited.is_over()) return {true, {}};
  if (awaited.reader == nullptr || array.ending() || array.left()) return {true, {}};
  if (newest_anywhere(awaited).value_or(0) > awaited.newer_than) return {true, {}};
  const ReadAttempt attempt = awaited.reader->acquire(0, awaited.newer_than);
  switch (attempt.outcome) {
    case ReadOutcome::kAcquired:
      awaited.array->end_read(attempt.slot);
      return {true, {}};
    case ReadOutcome::kUnmapped:
      return {false, wire::writer_row_of(attempt.version)};
    case ReadOutcome::kNotYet:
      return {awaited.until_writer_gone && is_at_end(awaited), {}};
    default:
      return {true, {}};
  }
}

std::vector<std::size_t> ready_among(const std::vector<Awaited>& all) {
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (look_at(all[i]).ready) ready.push_back(i);
  }
  return ready;
}

// Where a daemon does not answer, the call ends once another array is ready. An interrupt comes
// once, and so is not left for the next look.
absl::Status map_writers(const std::vector<Awaited>& all, WaitLimit& wait_limit) {
  const auto interrupt = [&] {
    auto status = wait_limit.check_call();
    return status.ok() && !ready_among(all).empty() ? absl::CancelledError("") : status;
  };
  for (const Awaited& awaited : all) {
    if (const auto row = look_at(awaited).unmapped) {
      auto status = awaited.array->map_writer_row(*row, interrupt);
      if (wire::code_of(status) == wire::ErrorCode::kInterrupted) return status;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::size_t>> look_at_all(const std::vector<Awaited>& all,
                                                     WaitLimit& wait_limit) {
  auto ready = ready_among(all);
  if (!ready.empty()) return ready;
  if (auto status = map_writers(all, wait_limit); !status.ok()) return status;
  return ready_among(all);
}

absl::Status check_sessions(const std::vector<Awaited>& all) {
  std::set<Session*> looked;
  for (const Awaited& awaited : all) {
    Session& session = awaited.array->session();
    if (!looked.insert(&session).second) continue;
    if (auto status = session.look(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

bool is_at_end(const Awaited& awaited) {
  OpenArray& array = *awaited.array;
  const OpenArray& home = awaited.home == nullptr ? array : *awaited.home;
  if (awaited.reader == nullptr || home.has_writer()) return false;
  // That first: what the writer has published is there since it went.
  const auto anywhere = newest_anywhere(awaited);
  if (!anywhere || *anywhere > awaited.newer_than) return false;
  const ReadAttempt attempt = awaited.reader->acquire(0, awaited.newer_than);
  if (attempt.outcome == ReadOutcome::kAcquired) array.end_read(attempt.slot);
  return attempt.outcome == ReadOutcome::kNotYet &&
         (awaited.begun || *anywhere != 0 || array.known_version() != 0);
}

namespace {

// Whatever makes it ready wakes who sleeps on its counts.
bool wakes_at_all(const Awaited& awaited) {
  return awaited.home == nullptr && awaited.array->board().elsewhere.load() == 0 &&
         !look_at(awaited).unmapped && awaited.array->session().watch_end();
}

// Until one may have become ready, or the end of the slice.
absl::Status sleep_on(const std::vector<Awaited>& all, WaitLimit& wait_limit) {
  // The counts, then the announcement, then the look: what comes after that changes the counts.
  std::vector<wire::FutexWait> words;
  for (const SlotReader* reader : readers_of(all)) {
    const SlotReader::Counts counts = reader->counts();
    words.insert(words.end(), counts.span().begin(), counts.span().end());
  }
  const Sleepers sleepers(all);
  const auto ready = look_at_all(all, wait_limit);
  if (!ready.ok() || !ready->empty()) return ready.status();
  if (wait_limit.is_long() && std::ranges::all_of(all, wakes_at_all)) {
    wait_limit.sleep_for_events(words);
  } else {
    wait_limit.sleep(words);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::size_t>> await_any(const std::vector<Awaited>& all,
                                                   WaitLimit& wait_limit) {
  for (bool last = false;;) {
    auto ready = look_at_all(all, wait_limit);
    if (!ready.ok() || !ready->empty() || last) return ready;
    // This process may have been stopped beyond the deadline: it looks once more then.
    last = wait_limit.expired();
    auto status = last ? absl::OkStatus() : sleep_on(all, wait_limit);
    if (status.ok()) status = wait_limit.step();
    if (!status.ok()) return status;
    if (status = check_sessions(all); !status.ok()) return status;
  }
}

}  // namespace memlease::internal
