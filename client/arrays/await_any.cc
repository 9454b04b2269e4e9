#include "client/arrays/await_any.h"

#include <algorithm>
#include <list>
#include <optional>
#include <set>
#include <utility>

#include "wire/board.h"
#include "wire/error.h"
#include "wire/futex.h"

namespace memlease::internal {
namespace {

// Of a look that is not to wait.
absl::Status not_for_long() { return absl::CancelledError(""); }

absl::StatusOr<std::optional<Places>> places_of(const Awaited& awaited, InterruptCheck check) {
  if (!awaited.places) return std::nullopt;
  return awaited.places(check);
}

// 0: the array has no places.
absl::StatusOr<std::uint64_t> newest_anywhere(const Awaited& awaited, InterruptCheck check) {
  const auto places = places_of(awaited, check);
  if (!places.ok()) return places.status();
  return places->has_value() ? (*places)->newest(check) : 0;
}

// What this process sleeps on: the arrays, and the places at which newer versions of them may come.
// Each once, though many may wait for one array.
class Sources {
 public:
  Sources(const std::vector<Awaited>& all, InterruptCheck check) {
    for (const Awaited& awaited : all) {
      readers_.insert(awaited.reader);
      auto places = places_of(awaited, check);
      if (!places.ok()) {
        complete_ = false;
      } else if (places->has_value()) {
        add(**std::move(places), check);
      }
    }
  }
  // There is none that the daemon would have to be asked for first.
  bool complete() const { return complete_; }
  bool same_as(const Sources& other) const { return readers_ == other.readers_; }
  std::vector<wire::FutexWait> counts() const {
    std::vector<wire::FutexWait> words;
    for (const SlotReader* reader : readers_) {
      const SlotReader::Counts counts = reader->counts();
      words.insert(words.end(), counts.span().begin(), counts.span().end());
    }
    return words;
  }

  // Announces that a thread of this process sleeps on them, until these go.
  std::list<Sleeper> sleepers() const {
    std::list<Sleeper> announced;
    for (SlotReader* reader : readers_) announced.emplace_back(*reader);
    return announced;
  }

 private:
  // A replica that has been withdrawn alone gets no version any more.
  void add(Places places, InterruptCheck check) {
    for (const auto& array : places.all()) {
      const auto reader = array->reader(check);
      if (reader.ok()) {
        readers_.insert(*reader);
      } else if (wire::code_of(reader.status()) != wire::ErrorCode::kWithdrawn) {
        complete_ = false;
      }
    }
    kept_.push_back(std::move(places));
  }

  std::set<SlotReader*> readers_;
  std::vector<Places> kept_;
  bool complete_ = true;
};

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
class CallCheck {
 public:
  CallCheck(const std::vector<Awaited>& all, WaitLimit& wait_limit)
      : all_(all), wait_limit_(wait_limit) {}
  absl::Status operator()() const {
    if (ended_.ok()) ended_ = wait_limit_.check_call();
    if (ended_.ok() && !ready_among(all_, not_for_long).empty()) ended_ = not_for_long();
    return ended_;
  }
  bool ended() const { return !ended_.ok(); }
  absl::Status interrupt() const {
    return wire::code_of(ended_) == wire::ErrorCode::kInterrupted ? ended_ : absl::OkStatus();
  }

 private:
  const std::vector<Awaited>& all_;
  WaitLimit& wait_limit_;
  mutable absl::Status ended_;
};

absl::StatusOr<std::vector<std::size_t>> look_at_all(const std::vector<Awaited>& all,
                                                     WaitLimit& wait_limit) {
  const CallCheck check(all, wait_limit);
  auto ready = ready_among(all, check);
  if (ready.empty()) {
    for (const Awaited& awaited : all) {
      const auto row = look_at(awaited, check).unmapped;
      if (row && !check.ended()) awaited.array->map_writer_row(*row, check).IgnoreError();
    }
    ready = ready_among(all, check);
  }
  if (auto status = check.interrupt(); !status.ok()) return status;
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

// Whatever makes it ready wakes who sleeps on the counts, and so does its daemon's end.
bool wakes_at_all(const Awaited& awaited) {
  return !look_at(awaited, not_for_long).unmapped && newest_anywhere(awaited, not_for_long).ok() &&
         awaited.array->session().watch_end();
}

// Until one may have become ready, or the end of the slice.
absl::Status sleep_on(const std::vector<Awaited>& all, WaitLimit& wait_limit) {
  const CallCheck check(all, wait_limit);
  const Sources sources(all, check);
  if (auto status = check.interrupt(); !status.ok()) return status;
  // The counts, then the announcement, then the look: what comes after that changes the counts.
  const auto counts = sources.counts();
  const std::list<Sleeper> sleepers = sources.sleepers();
  const auto ready = look_at_all(all, wait_limit);
  if (!ready.ok() || !ready->empty()) return ready.status();
  // A further replica may have been written before the counts.
  const bool same = sources.same_as(Sources(all, check));
  if (auto status = check.interrupt(); !status.ok() || !same) return status;
  // The look has mapped a writer's row, whose count is not among those yet.
  if (sources.counts().size() != counts.size()) return absl::OkStatus();
  const bool by_events =
      wait_limit.is_long() && sources.complete() && std::ranges::all_of(all, wakes_at_all);
  wait_limit.sleep(counts, by_events ? std::chrono::nanoseconds::max() : kInterruptInterval);
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
