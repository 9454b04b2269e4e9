// A client process of a simulation: the files that it has mapped, the arrays that it has open, and
// the client's half of the slot protocol on their pages, which is the real one. What it asks of the
// daemon the commands ask for it. One difference to the library: rows of others are mapped when
// somebody looks at them, not before. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "client/slots/known_rows.h"
#include "client/slots/row_resolver.h"
#include "client/slots/slot_reader.h"
#include "client/slots/slot_writer.h"
#include "server/core/broker.h"
#include "tests/simulation/plain_memory.h"

namespace memlease::simulation {

// A version that is held.
struct Lease {
  std::uint32_t slot = 0;
  std::uint64_t version = 0;
  wire::FileRange place;
};

struct OpenedArray {
  wire::ArrayId id{0};
  wire::SlotLayout layout{1};
  bool on_gpu = false;
  std::uint32_t opens = 0;
  const wire::BoardRecord* board = nullptr;
  wire::ReaderRow* reader_row = nullptr;
  wire::WriterRow* writer_row = nullptr;
  std::optional<internal::SlotReader> reader;
  std::optional<internal::SlotWriter> writer;
  std::optional<std::uint64_t> offer;  // of writer ownership
  bool copied = false;                 // the row that the offer is about
  std::vector<Lease> leases;
  std::optional<Lease> write;  // under way
};

class Process final : public internal::RowResolver {
 public:
  using Mapped = PlainMemory::Export;

  Process(server::Broker& broker, PlainMemory& memory, server::PeerIdentity who, wire::SessionId id)
      : peer(std::move(who)), session(id), broker_(broker), memory_(memory) {}

  // The file of this number; nullptr if it cannot be had. What it is given must be the file of that
  // number, and no more than it may have.
  const Mapped* map(wire::FileId id);
  // Asks for it once more, mapped or not. Violation if a number means two files to this process.
  const Mapped* fetch(wire::FileId id);
  // Its own row there; nullptr if the page cannot be had.
  std::byte* own_row(wire::RowRef at);
  const std::map<std::uint32_t, Mapped>& mapped() const { return mapped_; }

  // Whoever wants nothing more of an array destroys what looks at its pages.
  OpenedArray* find(wire::ArrayId id);
  bool uses_something() const;

  // RowResolver.
  const wire::SubscriberChunk* find_subscriber_chunk(wire::FileRange at,
                                                     std::size_t place) override;
  const wire::WriterRow* find_writer_row(wire::RowRef at) override;
  const wire::ReaderRow* find_reader_row(wire::RowRef at, std::size_t place) override;
  internal::KnownRows rows{*this};

  const server::PeerIdentity peer;
  const wire::SessionId session;
  bool connected = true;  // else it has been cut, or is about to exit
  bool lies = false;      // it has written nonsense into its rows, and uses no array any more
  std::map<std::uint64_t, OpenedArray> arrays;
  // By the file's number: the numbers in the handles.
  std::map<std::uint32_t, std::uint64_t> imported_memory;
  std::uint64_t last_departure = 0;

 private:
  server::Broker& broker_;
  PlainMemory& memory_;
  std::map<std::uint32_t, Mapped> mapped_;
};

// As owner, group and mode say, in terms of this file alone: bits 4 and 2.
unsigned rights_of(const server::PeerIdentity& peer, const server::AccessDomain& domain);

}  // namespace memlease::simulation
