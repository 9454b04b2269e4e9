// What a writer has stored past the caches, as compilers and libraries fill large arrays, is there
// when its version can be seen. On x86 nothing but a fence orders such stores before others; the
// control leaves it out. Other processors have no such stores.
#if defined(__x86_64__)

#include <immintrin.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/client/slots/slot_world.h"
#include "tests/support/crash_point.h"

namespace memlease::testing {
namespace {

constexpr std::uint64_t kReads = 20'000;
// Far more than it takes a reader who is running.
constexpr int kLooks = 2'000;

// What was stored last is on its way the longest.
bool is_whole(const std::vector<std::uint64_t>& words, std::uint64_t version) {
  const auto* last = static_cast<const volatile std::uint64_t*>(words.data() + words.size());
  bool whole = true;
  for (std::size_t i = words.size(); i-- > 0;) whole = *--last == version && whole;
  return whole;
}

// Reads every version at once, and stops at the first that is torn, or after so many. True if none
// was.
bool are_whole(std::uint64_t reads) {
  SlotWorld world(4, 1);  // several, so that the reader has old bytes of each in its cache
  std::atomic<std::uint64_t> seen{0};
  std::atomic<bool> torn{false};
  std::atomic<bool> done{false};
  // The writer goes on only once its version has been read: it looks, and executes nothing that
  // would order its stores after all.
  std::uint64_t published = 0;
  arm_each("publish.publication", [&] {
    for (int i = 0; i < kLooks && seen.load() < published && !done.load(); ++i) _mm_pause();
  });
  std::jthread reader([&] {
    for (std::uint64_t read = 0; read < reads && !torn; ++read) {
      internal::ReadAttempt attempt;
      do {
        attempt = world.reader(0).acquire(0, seen);
      } while (attempt.outcome != internal::ReadOutcome::kAcquired);
      torn = !is_whole(world.payload(attempt.slot), attempt.version);
      world.reader(0).release(attempt.slot);
      seen = attempt.version;
    }
    done = true;
  });
  while (!done) {
    const internal::WriteAttempt attempt = world.begin();
    for (std::uint64_t& word : world.payload(attempt.slot)) {
      _mm_stream_si64(reinterpret_cast<long long*>(&word), static_cast<long long>(attempt.version));
    }
    published = attempt.version;
    world.writer().publish(attempt.slot, attempt.version);
  }
  return !torn;
}

class StreamingStores : public ::testing::Test {
 protected:
  void TearDown() override { forget_steps(); }
};

TEST_F(StreamingStores, AreThereWhenTheirVersionIsSeen) { EXPECT_TRUE(are_whole(kReads)); }

TEST_F(StreamingStores, MayComeLaterWithoutTheFence) {
  leave_out("order streaming stores");
  EXPECT_FALSE(are_whole(50 * kReads));
}

}  // namespace
}  // namespace memlease::testing

#endif
