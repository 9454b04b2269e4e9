#include <memory>

#include "gtest/gtest.h"
#include "server/device/memfd_device_backend.h"
#include "server/device/spare_pages.h"
#include "wire/board.h"

namespace memlease::server {
namespace {

using HugePages = MemfdDeviceBackend::HugePages;
using Kind = SparePages::Kind;

class SparePagesTest : public ::testing::Test {
 protected:
  std::unique_ptr<SharedMemory> make_one(const Kind& kind) {
    return *source_.create_pages(kind.size_bytes, kind.daemon_writes, wire::ReserveKept::kAll);
  }
  std::unique_ptr<SharedMemory> take(const Kind& kind) {
    auto taken = pages_.create_pages(kind.size_bytes, kind.daemon_writes, wire::ReserveKept::kAll);
    EXPECT_TRUE(taken.ok()) << taken.status();
    return *std::move(taken);
  }
  int make_all() {
    int made = 0;
    for (; pages_.next() != nullptr; ++made) pages_.keep(*pages_.next(), make_one(*pages_.next()));
    pages_.end_making();
    return made;
  }

  MemfdDeviceBackend source_{HugePages::kNever};
  SparePages pages_{source_};
};

constexpr Kind kOfSession{wire::kSessionPageBytes, false};
constexpr Kind kOfTakeovers{wire::kSessionPageBytes, true};
constexpr Kind kBoard{wire::kBoardBytes, true};

TEST_F(SparePagesTest, AreGivenToTheNextWhoAskForTheirKind) {
  for (const Kind& kind : {kOfSession, kOfTakeovers, kBoard}) {
    make_all();
    auto made = make_one(kind);
    const SharedMemory* const spare = made.get();
    pages_.keep(kind, std::move(made));
    for (const Kind& other : {kOfSession, kOfTakeovers, kBoard}) {
      if (other != kind) {
        EXPECT_NE(take(other).get(), spare);
      }
    }
    const auto taken = take(kind);
    EXPECT_EQ(taken.get(), spare);
    const auto next = take(kind);
    EXPECT_NE(next.get(), spare);
    EXPECT_EQ(next->size_bytes(), kind.size_bytes);
  }
}

TEST_F(SparePagesTest, ThereIsNoneOfAnotherSize) {
  make_all();
  EXPECT_EQ(take({2 * wire::kBoardBytes, true})->size_bytes(), 2 * wire::kBoardBytes);
  EXPECT_FALSE(pages_.begin_making());
}

TEST(SparePages, RoomIsThatOfTheirSource) {
  MemfdDeviceBackend source(MemfdDeviceBackend::HugePages::kNever,
                            [](std::uint64_t, std::uint64_t, wire::ReserveKept) {
                              return wire::MemoryBound{100, "memory"};
                            });
  SparePages pages(source);
  EXPECT_TRUE(pages.has_room(100).ok());
  EXPECT_FALSE(pages.has_room(101).ok());
}

TEST_F(SparePagesTest, OneIsMadeForEachThatIsTaken) {
  EXPECT_TRUE(pages_.begin_making());
  EXPECT_FALSE(pages_.begin_making()) << "it is under way";
  EXPECT_EQ(make_all(), 3);
  EXPECT_FALSE(pages_.begin_making()) << "they are there";
  take(kBoard);
  EXPECT_TRUE(pages_.begin_making());
  EXPECT_EQ(*pages_.next(), kBoard);
  EXPECT_EQ(make_all(), 1);
}

TEST_F(SparePagesTest, AreTriedAgainWhenOneIsAskedForWhereItCouldNotBeMade) {
  ASSERT_TRUE(pages_.begin_making());
  while (pages_.next() != nullptr) pages_.keep(*pages_.next(), nullptr);
  pages_.end_making();
  EXPECT_FALSE(pages_.begin_making());
  take(kOfSession);
  EXPECT_TRUE(pages_.begin_making());
  EXPECT_EQ(*pages_.next(), kOfSession);
}

}  // namespace
}  // namespace memlease::server
