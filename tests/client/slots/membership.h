// The daemon's core with an array that one process writes and another one reads, both by the real
// client's half of the slot protocol on the rows that the daemon has given them.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "client/slots/known_rows.h"
#include "client/slots/row_resolver.h"
#include "client/slots/slot_reader.h"
#include "client/slots/slot_writer.h"
#include "gtest/gtest.h"
#include "tests/server/core/broker_world.h"
#include "tests/support/slot_wait_of.h"

namespace memlease::testing {

// The rows of at most one writer and one reader, whoever is asked for.
class FewRows : public internal::RowResolver {
 public:
  const wire::WriterRow* find_writer_row(wire::RowRef) override { return writer; }
  const wire::ReaderRow* find_reader_row(wire::RowRef, std::size_t) override { return reader; }
  const wire::SubscriberChunk* find_subscriber_chunk(wire::FileRange, std::size_t) override {
    return nullptr;
  }

  const wire::WriterRow* writer = nullptr;
  const wire::ReaderRow* reader = nullptr;
  internal::KnownRows known{*this};
};

// A writer and a reader of one array with two slots, which may get more.
struct Membership {
  BrokerWorld world;
  server::Session& writes = world.connect(1000);
  server::Session& reads = world.connect(1000);
  wire::ArrayId id;
  wire::WriterRow& writer_row;
  const server::Array& array;
  FewRows rows;
  internal::SlotWriter writer{*array.board,   id,
                              array.layout(), wire::writer_row_of(array.board->writer.load()),
                              writer_row,     rows.known};
  std::optional<internal::SlotReader> reader;
  internal::ReadAttempt held;

  explicit Membership(std::uint32_t max_slots = 2)
      : id(world.create(writes, spec(max_slots))),
        writer_row(world.become_writer(writes, id)),
        array(*world.broker.catalog().find(id)) {
    world.open(reads, "u");
    wire::ReaderRow& row = world.subscribe(reads, id);
    rows.writer = &writer_row;
    rows.reader = &row;
    reader.emplace(*array.board, id, array.layout(), row, rows.known);
  }
  static wire::ArraySpec spec(std::uint32_t max_slots) {
    wire::ArraySpec spec = spec_of("u", 0600, 2);
    spec.max_slots = max_slots;
    return spec;
  }
  bool exists() { return world.broker.catalog().find(id) != nullptr; }
  internal::WriteAttempt begin() {
    SlotWaitOf none;
    return writer.begin(none);
  }
  void publish() {
    const internal::WriteAttempt attempt = begin();
    EXPECT_EQ(attempt.outcome, internal::WriteOutcome::kReady);
    writer.publish(attempt.slot, attempt.version);
  }
  // The reader holds version 1, and version 2 is current: there is no slot to write.
  void hold_the_other_slot() {
    publish();
    held = reader->acquire(1, 0);
    EXPECT_EQ(held.outcome, internal::ReadOutcome::kAcquired);
    publish();
  }

  // One slot more for the writer, as the daemon adds it: with the memory that is missing.
  absl::Status add_slot() {
    for (;;) {
      auto growth = world.broker.add_slot(writes, id, slots());
      if (!growth.ok() || !*growth) return growth.status();
      auto added = world.broker.add_memory(
          **growth, world.memory.create_segment((*growth)->size_bytes, wire::ReserveKept::kAll));
      if (!added.ok()) return added;
    }
  }
  // Version 3 stands in an added slot, of which the writer has no use, nor has the reader; version
  // 4 is current.
  void grow() {
    hold_the_other_slot();
    EXPECT_TRUE(add_slot().ok());
    publish();
    reader->release(held.slot);
    publish();
    EXPECT_EQ(writer_row.slot_words()[2].load(), 3U);
  }
  std::uint32_t slots() const { return static_cast<std::uint32_t>(array.slots.size()); }
  // A slot that has been idle since the last look is taken away.
  void take_idle_slots() {
    world.broker.take_idle_slots();
    world.broker.take_idle_slots();
  }
};

}  // namespace memlease::testing
