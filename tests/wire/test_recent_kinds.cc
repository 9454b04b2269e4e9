#include "gtest/gtest.h"
#include "wire/recent_kinds.h"

namespace memlease::wire {
namespace {

ArrayKind kind_of(std::int64_t elements) {
  ArrayKind kind;
  kind.shape = {elements};
  return kind;
}

TEST(RecentKinds, AreSharedByThoseWhoAreAlike) {
  RecentKinds kinds;
  const SharedKind one = kinds.share(kind_of(1));
  EXPECT_EQ(*one, kind_of(1));
  EXPECT_NE(kinds.share(kind_of(2)), one);
  EXPECT_EQ(kinds.share(kind_of(1)), one);
}

TEST(RecentKinds, ForgetTheOneThatWasAskedForLongestAgo) {
  RecentKinds kinds;
  const SharedKind often = kinds.share(kind_of(0));
  const SharedKind once = kinds.share(kind_of(-1));
  for (std::int64_t elements = 1; elements < 100; ++elements) {
    kinds.share(kind_of(elements));
    EXPECT_EQ(kinds.share(kind_of(0)), often);
  }
  EXPECT_EQ(once.use_count(), 1) << "nobody else keeps it";
  EXPECT_NE(kinds.share(kind_of(-1)), once);
}

}  // namespace
}  // namespace memlease::wire
