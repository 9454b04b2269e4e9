// That a layout cannot change by itself: what the number sees, and what it cannot see.
#include <vector>

#include "gtest/gtest.h"
#include "wire/page_layout.h"

namespace memlease::wire {
namespace {

// As WriterRow, with two words of one size in each other's place.
struct Swapped {
  Word publication{0};
  HalfWord publish_count{0};
  HalfWord publisher_cpu{0};
  Word empty_writes{0};
  Word copies_at{0};
  Word copied_versions{0};
  Word reserved[3]{};
  Word highest_used{0};
  HalfWord wanted{0};
  HalfWord writing{0};
};

// As SubscriberChunk, with one entry less.
struct Shorter {
  static constexpr std::uint32_t kEntries = 6;
  Word next{0};
  Word entries[kEntries]{};
  Word reserved{0};
};

TEST(PageLayout, IsAnotherNumberWhereWordsHaveChangedPlaces) {
  static_assert(sizeof(Swapped) == sizeof(WriterRow));
  EXPECT_NE((hash_of_rows<ReaderRow, Swapped>()), hash_of_rows());
}

// As EventWords.
struct SwappedEvent {
  Word complete{0};
  Word recorded{0};
};

TEST(PageLayout, IsAnotherNumberWhereAnEventsWordsHaveChangedPlaces) {
  static_assert(sizeof(SwappedEvent) == sizeof(EventWords));
  EXPECT_NE(hash_of_events<SwappedEvent>(), hash_of_events());
}

TEST(PageLayout, IsAnotherNumberWhereAListIsShorter) {
  static_assert(sizeof(Shorter) == sizeof(SubscriberChunk));
  EXPECT_NE((hash_of_boards<BoardRecord, Shorter>()), hash_of_boards());
}

TEST(PageLayout, DependsOnTheOrderOfTheFacts) {
  EXPECT_NE(hash_of({1, 2}), hash_of({2, 1}));
  EXPECT_NE(hash_of({0}), hash_of({}));
}

// The number knows how much stands behind a record or row, and not in which order: another order is
// another version of the protocol, too.
TEST(PageLayout, HasInOneOrderWhatStandsBehindARecordOrRow) {
  constexpr SlotLayout kGrows{3, 64};
  std::vector<Word> page(board_record_units(kGrows) * kBoardUnitBytes / sizeof(Word));
  const auto at = [&](const void* word) {
    return static_cast<const std::byte*>(word) - reinterpret_cast<const std::byte*>(page.data());
  };
  auto* const board = reinterpret_cast<BoardRecord*>(page.data());
  EXPECT_EQ(at(board->poisoned()), 104);
  EXPECT_EQ(at(board->places(kGrows)), 104 + 64 * 8);
  auto* const reader = reinterpret_cast<ReaderRow*>(page.data());
  EXPECT_EQ(at(reader->holds()), 8);
  EXPECT_EQ(at(reader->read_fences(3)), 8 + 4 * 4);
  EXPECT_EQ(at(reader->read_fences(64)), 8 + 64 * 4);
  auto* const writer = reinterpret_cast<WriterRow*>(page.data());
  EXPECT_EQ(at(writer->slot_words()), 80);
}

}  // namespace
}  // namespace memlease::wire
