#include <memory>

#include "gtest/gtest.h"
#include "server/device/memfd_device_backend.h"
#include "server/device/spare_page.h"
#include "wire/board.h"

namespace memlease::server {
namespace {

using HugePages = MemfdDeviceBackend::HugePages;

class SparePageTest : public ::testing::Test {
 protected:
  std::unique_ptr<SharedMemory> make_one() {
    return *source_.create_pages(wire::kSessionPageBytes, /*daemon_writes=*/false,
                                 wire::ReserveKept::kAll);
  }

  MemfdDeviceBackend source_{HugePages::kNever};
  SparePage pages_{source_};
};

TEST_F(SparePageTest, IsGivenToTheNextWhoAsksForASessionPage) {
  ASSERT_TRUE(pages_.begin_making());
  auto made = make_one();
  const SharedMemory* const spare = made.get();
  pages_.keep(std::move(made));
  EXPECT_NE(pages_.create_pages(wire::kBoardBytes, true, wire::ReserveKept::kAll)->get(), spare);
  EXPECT_NE(pages_.create_pages(wire::kSessionPageBytes, true, wire::ReserveKept::kAll)->get(),
            spare);  // a takeover page
  const auto taken = pages_.create_pages(wire::kSessionPageBytes, false, wire::ReserveKept::kAll);
  EXPECT_EQ(taken->get(), spare);
  const auto next = pages_.create_pages(wire::kSessionPageBytes, false, wire::ReserveKept::kAll);
  ASSERT_TRUE(next.ok());
  EXPECT_EQ((*next)->size_bytes(), wire::kSessionPageBytes);
}

TEST(SparePage, RoomIsThatOfItsSource) {
  MemfdDeviceBackend source(MemfdDeviceBackend::HugePages::kNever,
                            [](std::uint64_t, std::uint64_t, wire::ReserveKept) {
                              return wire::MemoryBound{100, "memory"};
                            });
  SparePage pages(source);
  EXPECT_TRUE(pages.has_room(100).ok());
  EXPECT_FALSE(pages.has_room(101).ok());
}

TEST_F(SparePageTest, IsMadeOnceForEachThatIsTaken) {
  EXPECT_TRUE(pages_.begin_making());
  EXPECT_FALSE(pages_.begin_making());  // it is under way
  pages_.keep(make_one());
  EXPECT_FALSE(pages_.begin_making());  // it is there
  ASSERT_TRUE(pages_.create_pages(wire::kSessionPageBytes, false, wire::ReserveKept::kAll).ok());
  EXPECT_TRUE(pages_.begin_making());
}

TEST_F(SparePageTest, IsTriedAgainWhenOneIsAskedForWhereItCouldNotBeMade) {
  ASSERT_TRUE(pages_.begin_making());
  pages_.keep(nullptr);
  EXPECT_FALSE(pages_.begin_making());
  ASSERT_TRUE(pages_.create_pages(wire::kSessionPageBytes, false, wire::ReserveKept::kAll).ok());
  EXPECT_TRUE(pages_.begin_making());
}

}  // namespace
}  // namespace memlease::server
