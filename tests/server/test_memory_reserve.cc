#include <new>

#include "gtest/gtest.h"
#include "server/memory_reserve.h"

namespace memlease::server {
namespace {

TEST(MemoryReserve, IsGivenAwayOnceAndTakenAgain) {
  MemoryReserve reserve;
  EXPECT_TRUE(reserve.is_there());
  EXPECT_TRUE(MemoryReserve::give_away());
  EXPECT_FALSE(MemoryReserve::give_away());
  EXPECT_TRUE(reserve.is_there());
  EXPECT_TRUE(MemoryReserve::give_away());
}

// What operator new calls where it finds nothing; it tries again, or passes the exception on.
TEST(MemoryReserve, OperatorNewGivesItAway) {
  MemoryReserve reserve;
  const std::new_handler on_shortage = std::get_new_handler();
  ASSERT_NE(on_shortage, nullptr);
  EXPECT_NO_THROW(on_shortage());
  EXPECT_FALSE(MemoryReserve::give_away());
  EXPECT_THROW(on_shortage(), std::bad_alloc);
  EXPECT_TRUE(reserve.is_there());
  EXPECT_NO_THROW(on_shortage());
}

TEST(MemoryReserve, LeavesNothingBehind) {
  {
    const MemoryReserve reserve;
  }
  EXPECT_EQ(std::get_new_handler(), nullptr);
  EXPECT_FALSE(MemoryReserve::give_away());
}

}  // namespace
}  // namespace memlease::server
