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

// Of a look that is not to wait.
absl::Status not_for_long() { return absl::CancelledError(""); }

absl::StatusOr<std::uint64_t> newest_anywhere(const Awaited& awaited, InterruptCheck check) {
  return awaited.newest_anywhere ? awaited.newest_anywhere(check) : 0;
}

struct Look {
  bool ready = false;
  std::optional<wire::RowRef> unmapped;  // the writer's row, which has to be fetched first
};

bool is_at_end_by(const Awaited& awaited, InterruptCheck check);

Look look_at(const Awaited& awaited, InterruptCheck check) {
  const OpenArray& array = *awaited.array;
  if (awaited.is_over && awaited.is_over()) return {true, {}};
  if (awaited.reader == nullptr || array.ending() || array.left()) return {true, {}};
  if (newest_anywhere(awaited, check).value_or(0) > awaited.newer_than) return {true, {}};
  const ReadAttempt attempt = awaited.reader->acquire(0, awaited.newer_than);
  switch (attempt.outcome) {
    case ReadOutcome::kAcquired:
      awaited.array->end_read(attempt.slot);
      return {true, {}};
    case ReadOutcome::kUnmapped:
      return {false, wire::writer_row_of(attempt.version)};
    case ReadOutcome::kNotYet:
      return {awaited.until_writer_gone && is_at_end_by(awaited, check), {}};
    default:
      return {true, {}};
  }
}

std::vector<std::size_t> ready_among(const std::vector<Awaited>& all, InterruptCheck check) {
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (look_at(all[i], check).ready) ready.push_back(i);
  }
  return ready;
}

// Where a daemon does not answer, the call ends once another array is ready. An interrupt comes
// once, and so is not left for the next look.
absl::StatusOr<std::vector<std::size_t>> look_at_all(const std::vector<Awaited>& all,
                                                     WaitLimit& wait_limit) {
  absl::Status ended;
  const auto check = [&] {
    if (ended.ok()) ended = wait_limit.check_call();
    if (ended.ok() && !ready_among(all, not_for_long).empty()) ended = not_for_long();
    return ended;
  };
  auto ready = ready_among(all, check);
  if (ready.empty()) {
    for (const Awaited& awaited : all) {
      const auto row = look_at(awaited, check).unmapped;
      if (row && ended.ok()) awaited.array->map_writer_row(*row, check).IgnoreError();
    }
    ready = ready_among(all, check);
  }
  if (wire::code_of(ended) == wire::ErrorCode::kInterrupted) return ended;
  return ready;
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

bool is_at_end_by(const Awaited& awaited, InterruptCheck check) {
  OpenArray& array = *awaited.array;
  const OpenArray& home = awaited.home == nullptr ? array : *awaited.home;
  if (awaited.reader == nullptr || home.has_writer()) return false;
  // That first: what the writer has published is there since it went.
  const auto anywhere = newest_anywhere(awaited, check);
  if (!anywhere.ok() || *anywhere > awaited.newer_than) return false;
  const ReadAttempt attempt = awaited.reader->acquire(0, awaited.newer_than);
  if (attempt.outcome == ReadOutcome::kAcquired) array.end_read(attempt.slot);
  return attempt.outcome == ReadOutcome::kNotYet &&
         (awaited.begun || *anywhere != 0 || array.known_version() != 0);
}

// Whatever makes it ready wakes who sleeps on its counts.
bool wakes_at_all(const Awaited& awaited) {
  return awaited.home == nullptr && awaited.array->board().elsewhere.load() == 0 &&
         !look_at(awaited, not_for_long).unmapped && awaited.array->session().watch_end();
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

bool is_at_end(const Awaited& awaited) { return is_at_end_by(awaited, not_for_long); }

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
