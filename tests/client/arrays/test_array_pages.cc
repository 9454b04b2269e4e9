// Which rows of others an array keeps mapped, on fakes.
#include "client/arrays/array_pages.h"
#include "gtest/gtest.h"
#include "tests/client/arrays/array_world.h"

namespace memlease::internal {
namespace {

class ArrayPagesTest : public ::testing::Test, protected testing::ArrayWorld {
 protected:
  static constexpr wire::RowRef kOtherReader{wire::FileId{5}, 16};
  static constexpr wire::RowRef kThirdReader{wire::FileId{6}, 16};

  ArrayPagesTest() {
    for (const wire::RowRef at : {kOtherReader, kThirdReader}) {
      files->kinds[wire::to_int(at.file)] = wire::FileKind::kSessionPage;
    }
  }

  wire::Word& entry(std::uint32_t i) { return board().subscribers.entries[i]; }
  void subscribe(std::uint32_t i, wire::RowRef at) {
    server::add_subscriber(board(), entry(i), at);
  }
  // Are there rows that were not mapped before?
  bool map_rows() {
    const auto mapped = pages.map_reader_rows(kNoInterrupts);
    EXPECT_TRUE(mapped.ok()) << mapped.status();
    return mapped.ok() && *mapped;
  }
  // nullptr: not mapped.
  const wire::ReaderRow* row_of(wire::RowRef at) {
    return pages.rows().reader_row(wire::pack_subscriber(at), 0);
  }
  // Whose page nobody has mapped is fetched.
  bool page_is_mapped(wire::RowRef at) {
    unmap();
    const int fetches = files->fetches;
    page(at.file);
    unmap();
    return files->fetches == fetches;
  }

  const KnownArray known{answer, owner->share_kind(answer.spec)};
  ArrayPages pages{known, *map_record(answer, owner->session().mappings(), kNoInterrupts),
                   owner->session().mappings()};
};

TEST_F(ArrayPagesTest, AReadersRowIsMappedOnce) {
  subscribe(0, kReader);
  EXPECT_EQ(row_of(kReader), nullptr);
  EXPECT_TRUE(map_rows());
  EXPECT_NE(row_of(kReader), nullptr);
  EXPECT_FALSE(map_rows());
  EXPECT_TRUE(page_is_mapped(kReader));
}

TEST_F(ArrayPagesTest, ANewSubscriberIsTheOccasionToForgetWhoHasGone) {
  subscribe(0, kReader);
  subscribe(1, kOtherReader);
  ASSERT_TRUE(map_rows());
  const wire::ReaderRow* const stays = row_of(kOtherReader);
  ASSERT_NE(row_of(kReader), nullptr);

  server::remove_subscriber(board(), entry(0));
  EXPECT_FALSE(map_rows());
  EXPECT_TRUE(page_is_mapped(kReader)) << "nobody has come";

  subscribe(0, kThirdReader);
  EXPECT_TRUE(map_rows());
  EXPECT_FALSE(page_is_mapped(kReader));
  EXPECT_EQ(row_of(kReader), nullptr);
  EXPECT_EQ(row_of(kOtherReader), stays);
  EXPECT_TRUE(page_is_mapped(kOtherReader));
  EXPECT_NE(row_of(kThirdReader), nullptr);
}

TEST_F(ArrayPagesTest, WhoIsListedInALaterPageIsNotForgotten) {
  constexpr wire::FileRange kNext{wire::FileId{1}, 2048};  // of the board
  board().subscribers.next.store(wire::pack_chunk(kNext));
  auto& next = *reinterpret_cast<wire::SubscriberChunk*>(page(kNext.file) + kNext.offset);
  server::add_subscriber(board(), next.entries[0], kOtherReader);
  ASSERT_TRUE(map_rows());
  subscribe(0, kReader);
  ASSERT_TRUE(map_rows());
  EXPECT_NE(row_of(kReader), nullptr);
  EXPECT_NE(row_of(kOtherReader), nullptr);
}

TEST_F(ArrayPagesTest, ARowWhosePageHasGoneIsLeftOut) {
  files->missing = {wire::to_int(kReader.file)};
  subscribe(0, kReader);
  subscribe(1, kOtherReader);
  EXPECT_TRUE(map_rows());
  EXPECT_EQ(row_of(kReader), nullptr);
  EXPECT_NE(row_of(kOtherReader), nullptr);
}

}  // namespace
}  // namespace memlease::internal
