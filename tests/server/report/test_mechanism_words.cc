// What people are told when a mechanism goes or comes back.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/report/mechanism_words.h"

namespace memlease::server {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

TEST(MechanismWords, ALackHasAHint) {
  const auto has_a_hint_if_it_lacks = [](MechanismChange (*change)(bool)) {
    for (const bool degraded : {false, true}) {
      EXPECT_EQ(change(degraded).degraded, degraded);
      EXPECT_THAT(change(degraded).reason, Not(IsEmpty()));
      EXPECT_EQ(change(degraded).hint.empty(), !degraded);
    }
    EXPECT_NE(change(true).reason, change(false).reason);
    return change(true).mechanism;
  };
  EXPECT_EQ(has_a_hint_if_it_lacks(huge_pages_change), Mechanism::kHugePages);
  EXPECT_EQ(has_a_hint_if_it_lacks(event_waits_change), Mechanism::kEventWaits);
  EXPECT_EQ(has_a_hint_if_it_lacks(memory_change), Mechanism::kMemory);
}

TEST(MechanismWords, EachFileThatHasGoneIsNamedOnce) {
  const auto first = directory_changes({}, {"/run/a"});
  ASSERT_THAT(first, SizeIs(1));
  EXPECT_EQ(first[0].mechanism, Mechanism::kDirectory);
  EXPECT_TRUE(first[0].degraded);
  EXPECT_EQ(first[0].reason, "/run/a is gone: nobody new can connect");
  const auto second = directory_changes({"/run/a"}, {"/run/a", "/run/b", "/run/c"});
  ASSERT_THAT(second, SizeIs(2));
  EXPECT_EQ(second[0].reason, "/run/b is gone: nobody new can connect");
  EXPECT_EQ(second[1].reason, "/run/c is gone: nobody new can connect");
}

TEST(MechanismWords, TheDirectoryHasRecoveredWhenNoFileIsGoneAnyMore) {
  EXPECT_THAT(directory_changes({"/run/a", "/run/b"}, {"/run/a"}), IsEmpty());
  const auto recovered = directory_changes({"/run/a"}, {});
  ASSERT_THAT(recovered, SizeIs(1));
  EXPECT_FALSE(recovered[0].degraded);
  EXPECT_THAT(directory_changes({}, {}), IsEmpty());
}

}  // namespace
}  // namespace memlease::server
