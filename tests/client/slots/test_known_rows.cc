// What is looked up without a call, and what the resolver is asked for.
#include "client/slots/known_rows.h"
#include "gtest/gtest.h"

namespace memlease::internal {
namespace {

constexpr wire::RowRef kAt{wire::FileId{4}, 16};
constexpr wire::RowRef kElsewhere{wire::FileId{5}, 32};

// Knows one of each kind, wherever it is looked for, and notes what it has found.
class OneOfEach : public RowResolver {
 public:
  const wire::WriterRow* find_writer_row(wire::RowRef at) override {
    ++calls;
    rows.note_writer(at, &writer);
    return &writer;
  }
  const wire::ReaderRow* find_reader_row(wire::RowRef at, std::size_t place) override {
    ++calls;
    rows.note_reader(at, place, &reader);
    return &reader;
  }
  const wire::SubscriberChunk* find_subscriber_chunk(wire::FileRange at,
                                                     std::size_t place) override {
    ++calls;
    rows.note_chunk(at, place, &chunk);
    return &chunk;
  }

  wire::WriterRow writer;
  wire::ReaderRow reader;
  wire::SubscriberChunk chunk;
  std::size_t calls = 0;
  KnownRows rows{*this};
};

TEST(KnownRows, TheWriterThatWasAskedForLastIsKnown) {
  OneOfEach all;
  EXPECT_EQ(all.rows.last_writer_row(kAt), nullptr);
  EXPECT_EQ(all.rows.writer_row(kAt), &all.writer);
  EXPECT_EQ(all.rows.writer_row(kAt), &all.writer);
  EXPECT_EQ(all.calls, 1U);
  EXPECT_EQ(all.rows.last_writer_row(kAt), &all.writer);

  all.rows.writer_row(kElsewhere);
  EXPECT_EQ(all.calls, 2U);
  EXPECT_EQ(all.rows.last_writer_row(kAt), nullptr) << "another one was asked for since";
  all.rows.writer_row(kAt);
  EXPECT_EQ(all.calls, 3U);
}

TEST(KnownRows, ReadersAreKnownByTheirPlacesUntilTheyAreForgotten) {
  constexpr std::size_t kPlaces = 100;
  OneOfEach all;
  const auto entry_of = [](std::size_t place) {
    return wire::pack_subscriber({wire::FileId{4}, static_cast<std::uint32_t>(16 * place)});
  };
  for (int round = 0; round < 2; ++round) {
    for (std::size_t place = kPlaces; place-- > 0;) {
      EXPECT_EQ(all.rows.reader_row(entry_of(place), place), &all.reader);
    }
    EXPECT_EQ(all.calls, kPlaces);
  }
  EXPECT_EQ(all.rows.reader_row(entry_of(1), 7), &all.reader) << "another one stands there";
  EXPECT_EQ(all.calls, kPlaces + 1);

  all.rows.forget_readers();
  all.rows.reader_row(entry_of(7), 7);
  EXPECT_EQ(all.calls, kPlaces + 2);
}

TEST(KnownRows, WhatTheListGoesOnWithIsKnownByItsPlace) {
  OneOfEach all;
  for (std::size_t place = 0; place < 3; ++place) {
    const std::uint64_t next = wire::pack_chunk({wire::FileId{1}, 128 * place});
    for (int round = 0; round < 2; ++round) {
      EXPECT_EQ(all.rows.subscriber_chunk(next, place), &all.chunk);
    }
    EXPECT_EQ(all.calls, place + 1);
  }
}

}  // namespace
}  // namespace memlease::internal
