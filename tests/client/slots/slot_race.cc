#include "tests/client/slots/slot_race.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "wire/futex.h"

namespace memlease::testing {
namespace {

using internal::ReadAttempt;
using internal::SlotReader;
using internal::SlotWriter;
using internal::WriteAttempt;

// Far above any delay of a loaded machine: a wake-up that did not come.
constexpr std::chrono::seconds kLost{30};
// Each write of this number is given up after half of its bytes.
constexpr std::uint64_t kDropEvery = 7;

std::uint64_t word_of(std::uint64_t version, std::size_t i) {
  return (version * 0x9e3779b97f4a7c15U) ^ i;
}

struct Shared {
  SlotWorld& world;
  const RaceOptions& options;
  std::atomic<bool> stop{false};
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> last{0};  // the final version, once done
  std::atomic<std::uint64_t> published{0}, reads{0}, torn{0}, backwards{0}, lost_wakeups{0};

  void sleep(std::span<const wire::FutexWait> words) {
    if (wire::futex_wait(words, kLost) == wire::FutexResult::kTimedOut) ++lost_wakeups;
  }
};

// Half of the bytes, a pause in which the writer may do anything, the other half.
void check_payload(Shared& shared, const ReadAttempt& attempt) {
  const std::vector<std::uint64_t>& words = shared.world.payload(attempt.slot);
  bool whole = true;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i == words.size() / 2 && attempt.version % 16 == 0) std::this_thread::yield();
    whole = whole && words[i] == word_of(attempt.version, i);
  }
  ++shared.reads;
  if (whole) return;
  ++shared.torn;
  if (shared.options.stop_when_torn) shared.stop = true;
}

// As begin_read() of the client: counts, announcement, another look, sleep.
ReadAttempt read_newer(Shared& shared, SlotReader& reader, std::uint64_t newer_than) {
  if (!shared.options.sleep) return reader.acquire(0, newer_than);
  for (;;) {
    const SlotReader::Counts counts = reader.counts();
    reader.announce_sleep();
    const ReadAttempt attempt = reader.acquire(0, newer_than);
    const bool acquired = attempt.outcome == internal::ReadOutcome::kAcquired;
    const bool finished = shared.stop || (shared.done && newer_than >= shared.last);
    if (!acquired && !finished) shared.sleep(counts.span());
    reader.end_sleep();
    if (acquired || finished) return attempt;
  }
}

void read_all(Shared& shared, SlotReader& reader) {
  std::uint64_t seen = 0;
  while (!shared.stop && !(shared.done && seen >= shared.last)) {
    const ReadAttempt newest = read_newer(shared, reader, seen);
    if (newest.outcome != internal::ReadOutcome::kAcquired) continue;
    if (newest.version <= seen) ++shared.backwards;
    seen = newest.version;
    check_payload(shared, newest);
    reader.release(newest.slot);
    if (seen < 2) continue;
    const ReadAttempt older = reader.acquire(seen - 1, 0);  // may be gone by now
    if (older.outcome != internal::ReadOutcome::kAcquired) continue;
    check_payload(shared, older);
    reader.release(older.slot);
  }
}

void write_all(Shared& shared) {
  SlotWriter& writer = shared.world.writer();
  std::uint64_t last = 0;
  SlotWaitOf wait([&](const std::vector<wire::FutexWait>& words, auto /*longest*/) {
    shared.sleep(words);
    return true;
  });
  while (!shared.stop && !shared.done) {
    const WriteAttempt attempt = writer.begin(wait);
    std::vector<std::uint64_t>& words = shared.world.payload(attempt.slot);
    const bool drop = attempt.version % kDropEvery == 0;
    for (std::size_t i = 0; i < (drop ? words.size() / 2 : words.size()); ++i) {
      words[i] = word_of(attempt.version, i);
    }
    if (drop) {
      writer.drop(attempt.slot);
      continue;
    }
    last = attempt.version;
    ++shared.published;
    if (shared.published >= shared.options.versions && shared.reads >= shared.options.reads) {
      shared.last = last;
      shared.done = true;  // before the last wake-up, so that nobody sleeps past it
    }
    writer.publish(attempt.slot, attempt.version);
  }
}

}  // namespace

RaceResult race(SlotWorld& world, const RaceOptions& options) {
  Shared shared{world, options};
  std::vector<std::jthread> threads;
  for (const std::uint32_t row : options.rows) {
    threads.emplace_back([&, row] { read_all(shared, world.reader(row)); });
  }
  write_all(shared);
  threads.clear();
  return {shared.published, shared.reads, shared.torn, shared.backwards, shared.lost_wakeups};
}

}  // namespace memlease::testing
