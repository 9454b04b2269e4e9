// Of many who sleep on a word, all are woken, and whoever wakes them need not wait for that.
#include <gtest/gtest.h>

#include "tests/support/eventually.h"
#include "tests/support/thread_names.h"
#include "tests/wire/sleepers.h"

namespace memlease::wire {
namespace {

bool has_thread() { return testing::thread_names().contains("memlease-wake"); }

TEST(Crowd, AFewAreWokenByTheCallAlone) {
  wake_and_join(kWokenAtOnce - 1);
  EXPECT_FALSE(has_thread());
}

TEST(Crowd, AllOfManyAreWokenByAThreadThatEnds) {
  wake_and_join(3 * kWokenAtOnce);
  wake_and_join(300);
  EXPECT_TRUE(has_thread());
  EXPECT_TRUE(testing::eventually([] { return !has_thread(); })) << "nothing is left to do";
  wake_and_join(2 * kWokenAtOnce);
}

}  // namespace
}  // namespace memlease::wire
