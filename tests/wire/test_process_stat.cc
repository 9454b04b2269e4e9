// What /proc has of a process, whatever it calls itself.
#include <sys/prctl.h>
#include <unistd.h>

#include <array>

#include "gtest/gtest.h"
#include "wire/process_stat.h"

namespace memlease::wire {
namespace {

TEST(ProcessStat, IsThatOfTheProcess) {
  for (const pid_t pid : {pid_t{0}, ::getpid()}) {
    const auto stat = ProcessStat::of(pid);
    ASSERT_TRUE(stat);
    EXPECT_EQ(stat->field(4), static_cast<std::uint64_t>(::getppid()));
    EXPECT_NE(stat->field(28), 0U) << "where its stack begins";
    EXPECT_GE(stat->field(51), stat->field(50)) << "its environment";
  }
}

TEST(ProcessStat, ANameMayHaveAnyCharacters) {
  std::array<char, 16> name;
  ASSERT_EQ(::prctl(PR_GET_NAME, name.data()), 0);
  ASSERT_EQ(::prctl(PR_SET_NAME, "a) S 1 (2 3"), 0);
  const auto stat = ProcessStat::of(0);
  ASSERT_EQ(::prctl(PR_SET_NAME, name.data()), 0);
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->field(4), static_cast<std::uint64_t>(::getppid()));
}

TEST(ProcessStat, ThereIsNoneOfNoProcess) {
  EXPECT_FALSE(ProcessStat::of(-1));
  EXPECT_FALSE(ProcessStat::of(1 << 30));
}

}  // namespace
}  // namespace memlease::wire
