#include "client/arrays/await_any.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "wire/board.h"
#include "wire/error.h"
#include "wire/futex.h"

namespace memlease::internal {
namespace {

constexpr std::chrono::milliseconds kPollInterval{1};

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
    Session& session = awaited.handle->array().session();
    if (!looked.insert(&session).second) continue;
    if (auto status = session.look(); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status prepare(Awaited& awaited, InterruptCheck interrupt) {
  const auto status = awaited.handle->use();
  if (wire::code_of(status) == wire::ErrorCode::kWithdrawn) return absl::OkStatus();
  if (!status.ok()) return status;
  auto reader = awaited.handle->array().reader(interrupt);
  if (wire::code_of(reader.status()) == wire::ErrorCode::kWithdrawn) return absl::OkStatus();
  if (!reader.ok()) return reader.status();
  awaited.reader = *reader;
  return absl::OkStatus();
}

bool is_ready(const Awaited& awaited, InterruptCheck interrupt) {
  OpenArray& array = awaited.handle->array();
  if (awaited.reader == nullptr || awaited.handle->closed() || array.left()) return true;
  ReadAttempt attempt = awaited.reader->acquire(0, awaited.newer_than);
  if (attempt.outcome == ReadAttempt::Outcome::kUnmapped) {
    array.map_writer_row(wire::writer_row_of(attempt.version), interrupt).IgnoreError();
    attempt = awaited.reader->acquire(0, awaited.newer_than);
  }
  if (attempt.outcome == ReadAttempt::Outcome::kAcquired) {
    array.end_read(attempt.slot);
    return true;
  }
  return attempt.outcome != ReadAttempt::Outcome::kNotYet &&
         attempt.outcome != ReadAttempt::Outcome::kUnmapped;
}

namespace {

// Until one may have become ready, or the end of the slice.
void sleep_on(const std::vector<Awaited>& all, std::chrono::nanoseconds slice,
              InterruptCheck interrupt) {
  // The counts, then the announcement, then the look: what comes after that changes the counts.
  std::vector<wire::FutexWait> words;
  for (const Awaited& awaited : all) {
    const SlotReader::Counts counts = awaited.reader->counts();
    words.insert(words.end(), counts.span().begin(), counts.span().end());
  }
  if (words.size() > wire::kMaxFutexWaits) {
    words.resize(wire::kMaxFutexWaits);
    slice = std::min<std::chrono::nanoseconds>(slice, kPollInterval);
  }
  const Sleepers sleepers(all);
  const bool ready = std::any_of(
      all.begin(), all.end(), [&](const Awaited& awaited) { return is_ready(awaited, interrupt); });
  if (!ready) wire::futex_wait(words, slice);
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
    if (!last) sleep_on(all, wait_limit.slice(), interrupt);
    if (auto status = wait_limit.step(); !status.ok()) return status;
    if (auto status = check_sessions(all); !status.ok()) return status;
  }
}

}  // namespace memlease::internal
