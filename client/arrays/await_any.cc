#include "client/arrays/await_any.h"

#include <algorithm>
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

std::vector<std::size_t> ready_among(const std::vector<Awaited>& all, InterruptCheck interrupt) {
  std::vector<std::size_t> ready;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (is_ready(all[i], interrupt)) ready.push_back(i);
  }
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

}  // namespace

bool is_ready(const Awaited& awaited, InterruptCheck interrupt) {
  OpenArray& array = *awaited.array;
  if (awaited.is_over && awaited.is_over()) return true;
  if (awaited.reader == nullptr || array.ending() || array.left()) return true;
  ReadAttempt attempt = awaited.reader->acquire(0, awaited.newer_than);
  if (attempt.outcome == ReadAttempt::Outcome::kUnmapped) {
    array.map_writer_row(wire::writer_row_of(attempt.version), interrupt).IgnoreError();
    attempt = awaited.reader->acquire(0, awaited.newer_than);
  }
  if (attempt.outcome == ReadAttempt::Outcome::kAcquired) {
    array.end_read(attempt.slot);
    return true;
  }
  if (awaited.until_writer_gone && is_at_end(awaited)) return true;
  return attempt.outcome != ReadAttempt::Outcome::kNotYet &&
         attempt.outcome != ReadAttempt::Outcome::kUnmapped;
}

bool is_at_end(const Awaited& awaited) {
  OpenArray& array = *awaited.array;
  if (awaited.reader == nullptr || array.has_writer()) return false;
  // That first: what the writer has published is there since it went.
  const ReadAttempt attempt = awaited.reader->acquire(0, awaited.newer_than);
  if (attempt.outcome == ReadAttempt::Outcome::kAcquired) array.end_read(attempt.slot);
  return attempt.outcome == ReadAttempt::Outcome::kNotYet &&
         (awaited.begun || array.known_version() != 0);
}

namespace {

// Until one may have become ready, or the end of the slice.
void sleep_on(const std::vector<Awaited>& all, WaitLimit& wait_limit, InterruptCheck interrupt) {
  // The counts, then the announcement, then the look: what comes after that changes the counts.
  std::vector<wire::FutexWait> words;
  for (const SlotReader* reader : readers_of(all)) {
    const SlotReader::Counts counts = reader->counts();
    words.insert(words.end(), counts.span().begin(), counts.span().end());
  }
  const Sleepers sleepers(all);
  const bool ready = std::any_of(
      all.begin(), all.end(), [&](const Awaited& awaited) { return is_ready(awaited, interrupt); });
  if (!ready) wait_limit.sleep(words);
}

}  // namespace

absl::StatusOr<std::vector<std::size_t>> await_any(const std::vector<Awaited>& all,
                                                   WaitLimit& wait_limit) {
  const auto interrupt = [&] { return wait_limit.check_interrupt(); };
  for (bool last = false;;) {
    auto ready = ready_among(all, interrupt);
    if (!ready.empty() || last) return ready;
    // This process may have been stopped beyond the deadline: it looks once more then.
    last = wait_limit.expired();
    if (!last) sleep_on(all, wait_limit, interrupt);
    if (auto status = wait_limit.step(); !status.ok()) return status;
    if (auto status = check_sessions(all); !status.ok()) return status;
  }
}

}  // namespace memlease::internal
