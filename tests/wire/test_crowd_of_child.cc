// Who has been forked has no thread of its parent's.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/wire/sleepers.h"

namespace memlease::wire {
namespace {

TEST(CrowdOfAChild, IsWokenByAThreadOfItsOwn) {
  wake_and_join(2 * kWokenAtOnce);
  const pid_t child = ::fork();
  if (child == 0) {
    wake_and_join(2 * kWokenAtOnce);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace memlease::wire
