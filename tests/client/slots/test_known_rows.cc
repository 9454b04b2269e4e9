// What is looked up without a call, and what the resolver is asked for.
#include "client/slots/known_rows.h"
#include "gtest/gtest.h"

namespace memlease::internal {
namespace {

constexpr wire::RowRef kAt{wire::FileId{4}, 16};
constexpr wire::RowRef kElsewhere{wire::FileId{5}, 32};
// Noted in the same place as kAt's.
constexpr wire::RowRef kAtTheSameIndex{wire::FileId{4}, 32};

// Knows one row of each kind, wherever it is looked for, and notes what it has found.
class OneOfEach : public RowResolver {
 public:
  const wire::WriterRow* find_writer_row(wire::RowRef at) override {
    ++calls;
    rows.note_writer(at, &writer);
    return &writer;
  }
  const wire::ReaderRow* find_reader_row(wire::RowRef at) override {
    ++calls;
    rows.note_reader(at, &reader);
    return &reader;
  }
  const wire::SubscriberChunk* subscriber_chunk(wire::FileRange) override { return nullptr; }

  wire::WriterRow writer;
  wire::ReaderRow reader;
  int calls = 0;
  KnownRows rows{*this};
};

TEST(KnownRows, TheWriterThatWasAskedForLastIsKnown) {
  OneOfEach all;
  EXPECT_EQ(all.rows.last_writer_row(kAt), nullptr);
  EXPECT_EQ(all.rows.writer_row(kAt), &all.writer);
  EXPECT_EQ(all.rows.writer_row(kAt), &all.writer);
  EXPECT_EQ(all.calls, 1);
  EXPECT_EQ(all.rows.last_writer_row(kAt), &all.writer);

  all.rows.writer_row(kElsewhere);
  EXPECT_EQ(all.calls, 2);
  EXPECT_EQ(all.rows.last_writer_row(kAt), nullptr) << "another one was asked for since";
  all.rows.writer_row(kAt);
  EXPECT_EQ(all.calls, 3);
}

TEST(KnownRows, SeveralReadersAreKnownUntilTheyAreForgotten) {
  OneOfEach all;
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(all.rows.reader_row(kAt), &all.reader);
    EXPECT_EQ(all.rows.reader_row(kElsewhere), &all.reader);
  }
  EXPECT_EQ(all.calls, 2);
  all.rows.reader_row(kAtTheSameIndex);
  all.rows.reader_row(kAt);
  EXPECT_EQ(all.calls, 4);

  all.rows.forget_readers();
  all.rows.reader_row(kAt);
  EXPECT_EQ(all.calls, 5);
}

}  // namespace
}  // namespace memlease::internal
