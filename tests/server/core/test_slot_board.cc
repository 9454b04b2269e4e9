// What a dead writer leaves behind, for every state in which it can die. Rows are plain memory.
#include <cstddef>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "rapidcheck/gtest.h"
#include "server/core/slot_board.h"
#include "wire/array_spec.h"

namespace memlease::server {
namespace {

using wire::BoardRecord;
using wire::kHandedOut;
using wire::kWriting;
using wire::WriterRow;

constexpr wire::RowRef kTakeoverRef{wire::FileId{3}, 5};
constexpr wire::RowRef kWriterRef{wire::FileId{4}, 6};

// Zeroed bytes with a row or record in it.
template <typename T>
class Plain {
 public:
  explicit Plain(std::size_t bytes) : words_((bytes + 7) / 8), value_(new(words_.data()) T) {}
  T& operator*() { return *value_; }
  T* operator->() { return value_; }

 private:
  std::vector<std::uint64_t> words_;
  T* value_;
};

struct Pages {
  explicit Pages(std::uint32_t slot_count)
      : slots(slot_count),
        board(wire::board_record_units(slots) * wire::kBoardUnitBytes),
        takeover(wire::writer_row_units(slots) * wire::kRowUnitBytes),
        writer(wire::writer_row_units(slots) * wire::kRowUnitBytes) {
    init_board(*board, wire::ArrayId{9}, slots, kTakeoverRef);
    set_writer(*board, kWriterRef, false);
  }
  void take_over() { server::take_over(*board, *takeover, kTakeoverRef, *writer, slots, stands); }

  std::uint32_t slots;
  std::function<bool(std::uint32_t)> stands = [](std::uint32_t) { return true; };
  Plain<BoardRecord> board;
  Plain<WriterRow> takeover;
  Plain<WriterRow> writer;
};

struct Death {
  std::string name;
  // The dead writer's row.
  std::vector<std::uint64_t> words;
  wire::Publication published;
  std::uint64_t highest;
  // What the takeover row has to say.
  std::vector<std::uint64_t> taken_over;
  wire::Publication current;
  std::map<std::uint32_t, std::uint64_t> poisoned = {};  // by slot
};
void PrintTo(const Death& death, std::ostream* out) { *out << death.name; }

const Death kDeaths[] = {
    {"NeverWrote", {0, 0, 0}, {}, 0, {0, 0, 0}, {}},
    {"BetweenWrites", {4, 5, 3}, {5, 1}, 5, {4, 5, 3}, {5, 1}},
    {"Marked", {4, 5, 3 | kWriting}, {5, 1}, 5, {4, 5, 3}, {5, 1}},
    {"MarkedAnEmptySlot", {4, 5, kWriting}, {5, 1}, 5, {4, 5, 0}, {5, 1}},
    {"NumberTakenButNotHandedOut", {4, 5, 3 | kWriting}, {5, 1}, 6, {4, 5, 3}, {5, 1}},
    {"HandedOut", {4, 5, 3 | kWriting | kHandedOut}, {5, 1}, 6, {4, 5, 0}, {5, 1}, {{2, 6}}},
    {"FirstVersionHandedOut", {kWriting | kHandedOut, 0, 0}, {}, 1, {0, 0, 0}, {}, {{0, 1}}},
    {"SlotWordWithoutPublication", {4, 5, 6}, {5, 1}, 6, {4, 5, 6}, {6, 2}},
    {"FirstSlotWordWithoutPublication", {1, 0, 0}, {}, 1, {1, 0, 0}, {1, 0}},
    {"PublishedButStillWriting", {4, 5, 6}, {6, 2}, 6, {4, 5, 6}, {6, 2}},
    {"Dropped", {4, 5, 0}, {5, 1}, 6, {4, 5, 0}, {5, 1}},
    {"OneSlotMarked", {7 | kWriting}, {7, 0}, 7, {7}, {7, 0}},
    {"OneSlotHandedOut", {7 | kWriting | kHandedOut}, {7, 0}, 8, {0}, {7, 0}, {{0, 8}}},
    {"OneSlotWordWithoutPublication", {8}, {7, 0}, 8, {8}, {8, 0}},
    {"OneSlotDropped", {0}, {7, 0}, 8, {0}, {7, 0}},
    {"ALieAboutWhatAnOnlySlotHad", {0}, {99, 5}, 8, {0}, {}},
    {"ALieAboveTheHighestNumber", {4, 99, 3}, {99, 1}, 5, {4, 0, 3}, {4, 0}},
    {"ALieAboutThePublication", {4, 5, 3}, {5, 63}, 5, {4, 5, 3}, {5, 1}},
};

class SlotTakeover : public ::testing::TestWithParam<Death> {};
INSTANTIATE_TEST_SUITE_P(, SlotTakeover, ::testing::ValuesIn(kDeaths),
                         [](const auto& test) { return test.param.name; });

TEST_P(SlotTakeover, KeepsWhatIsWholeAndPoisonsWhatIsTorn) {
  const Death& death = GetParam();
  const auto slots = static_cast<std::uint32_t>(death.words.size());
  Pages pages(slots);
  for (std::uint32_t s = 0; s < slots; ++s) pages.writer->slot_words()[s].store(death.words[s]);
  if (death.published.version != 0) pages.writer->publication.store(wire::pack(death.published));
  pages.writer->highest_used.store(death.highest);
  pages.writer->writing.store(1);
  const std::uint64_t old_word = pages.board->writer.load();
  const std::uint32_t events = pages.board->event_count.load();

  pages.take_over();

  for (std::uint32_t s = 0; s < slots; ++s) {
    EXPECT_EQ(pages.takeover->slot_words()[s].load(), death.taken_over[s]) << "slot " << s;
    const auto poison = death.poisoned.find(s);
    EXPECT_EQ(pages.board->poisoned()[s].load(),
              poison == death.poisoned.end() ? 0 : poison->second)
        << "slot " << s;
  }
  const auto current = wire::unpack_publication(pages.takeover->publication.load());
  EXPECT_EQ(current.version, death.current.version);
  EXPECT_EQ(current.slot, death.current.slot);
  EXPECT_EQ(pages.takeover->highest_used.load(), death.highest) << "numbers only grow";
  const std::uint64_t word = pages.board->writer.load();
  EXPECT_EQ(wire::writer_row_of(word), kTakeoverRef);
  EXPECT_EQ(word & wire::kWriterFlags, wire::kWriterVacant);
  EXPECT_EQ(wire::writer_generation_of(word), wire::writer_generation_of(old_word) + 1);
  EXPECT_GT(pages.board->event_count.load(), events);
}

TEST(SlotTakeoverRules, ASecondDeathForgetsNoPoisonedNumberOfAnotherSlot) {
  Pages pages(3);
  pages.writer->slot_words()[0].store(5);
  pages.writer->slot_words()[2].store(3 | kWriting | kHandedOut);
  pages.writer->highest_used.store(6);
  pages.take_over();
  // The next writer adopts, begins 7 in slot 1, and dies, too.
  set_writer(*pages.board, kWriterRef, false);
  pages.writer->slot_words()[2].store(0);
  pages.writer->slot_words()[1].store(kWriting | kHandedOut);
  pages.writer->highest_used.store(7);
  pages.take_over();
  EXPECT_EQ(pages.board->poisoned()[2].load(), 6U);
  EXPECT_EQ(pages.board->poisoned()[1].load(), 7U);
  EXPECT_EQ(pages.takeover->publication.load(), wire::pack({5, 0}));
}

TEST(SlotTakeoverRules, AWriterThatForgotTheNumbersCannotTurnThemBack) {
  Pages pages(2);
  pages.takeover->highest_used.store(40);  // an earlier tenure
  pages.writer->slot_words()[0].store(2);
  pages.writer->highest_used.store(2);
  pages.take_over();
  EXPECT_EQ(pages.takeover->highest_used.load(), 40U);
}

TEST(SlotTakeoverRules, WithdrawnAndDrainingSurviveEveryChangeOfTheWriter) {
  Pages pages(2);
  set_withdrawn(*pages.board);
  set_draining(*pages.board);
  set_moving(*pages.board);
  pages.take_over();
  EXPECT_EQ(pages.board->writer.load() & wire::kWriterFlags,
            wire::kWriterVacant | wire::kWriterWithdrawn | wire::kWriterDraining);
  set_writer(*pages.board, kWriterRef, false);
  EXPECT_EQ(pages.board->writer.load() & wire::kWriterFlags,
            wire::kWriterWithdrawn | wire::kWriterDraining);
}

TEST(SlotTakeoverRules, ALeavingSubscriberBumpsTheEventCount) {
  Pages pages(2);
  wire::Word& entry = pages.board->subscribers.entries[4];
  add_subscriber(*pages.board, entry, kWriterRef);
  EXPECT_EQ(wire::subscriber_row_of(entry.load()), kWriterRef);
  const std::uint32_t before = pages.board->event_count.load();
  remove_subscriber(*pages.board, entry);
  EXPECT_EQ(entry.load(), 0U);
  EXPECT_EQ(pages.board->event_count.load(), before + 1) << "a writer may wait for this reader";
}

// Its process may say that it has published another one.
TEST(SlotTakeoverRules, WhatStandsInAnOnlySlotIsTheNewest) {
  Pages pages(1);
  pages.writer->slot_words()[0].store(1);
  pages.writer->highest_used.store(2);
  pages.writer->publication.store(wire::pack({2, 0}));
  pages.take_over();
  EXPECT_EQ(wire::unpack_publication(pages.takeover->publication.load()).version, 1U);
  EXPECT_EQ(pages.takeover->highest_used.load(), 2U);
}

// Whatever stands in a row that its process may have filled with anything: what the takeover row
// says is consistent in itself, and no number that was seen before comes again.
RC_GTEST_PROP(SlotTakeoverRules, AnyRowLeavesAConsistentTakeoverRow, ()) {
  const auto words = *rc::gen::suchThat(
      rc::gen::container<std::vector<std::uint64_t>>(rc::gen::arbitrary<std::uint64_t>()),
      [](const auto& w) { return !w.empty() && w.size() <= wire::kMaxSlots; });
  const auto slots = static_cast<std::uint32_t>(words.size());
  Pages pages(slots);
  for (std::uint32_t s = 0; s < slots; ++s) pages.writer->slot_words()[s].store(words[s]);
  pages.writer->publication.store(*rc::gen::arbitrary<std::uint64_t>());
  pages.writer->highest_used.store(*rc::gen::arbitrary<std::uint64_t>());
  const std::uint64_t earlier = *rc::gen::inRange<std::uint64_t>(0, 1000);
  pages.takeover->highest_used.store(earlier);
  pages.take_over();
  const std::uint64_t highest = pages.takeover->highest_used.load();
  RC_ASSERT(highest >= earlier && highest <= wire::kLastVersion);
  const auto current = wire::unpack_publication(pages.takeover->publication.load());
  RC_ASSERT(current.slot < slots);
  std::uint64_t newest = 0;
  for (std::uint32_t s = 0; s < slots; ++s) {
    const std::uint64_t word = pages.takeover->slot_words()[s].load();
    RC_ASSERT((word & (kWriting | kHandedOut)) == 0U);
    RC_ASSERT(word <= highest);
    newest = std::max(newest, word);
  }
  if (slots > 1 || newest != 0) RC_ASSERT(current.version == newest);
  RC_ASSERT(current.version <= highest);
  if (newest != 0) RC_ASSERT(pages.takeover->slot_words()[current.slot].load() == newest);
}

}  // namespace
}  // namespace memlease::server
