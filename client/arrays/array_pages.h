// The pages of one array as this process has them mapped: its record on the board, its slots if
// they are in host memory, and the rows of its writers and readers. Thread-safe, but for what a
// writer calls: one write at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/session/control_port.h"
#include "client/session/mapping_cache.h"
#include "client/slots/row_resolver.h"
#include "wire/board.h"

namespace memlease::internal {

class ArrayPages final : public RowResolver {
 public:
  // The cache must outlive this.
  explicit ArrayPages(MappingCache& mappings) : mappings_(mappings) {}

  // Maps the board. Fetches what this process does not have yet, and so does each call that returns
  // a status or a row. kInternal: the answer does not fit its files.
  absl::Status map_board(const OpenAnswer& answer);
  // Maps the slots of a host array, whose addresses it returns.
  absl::StatusOr<std::vector<std::byte*>> map_slots(const OpenAnswer& answer);
  // Of map_board().
  const wire::BoardRecord& board() const { return *board_; }

  // A row of this process's own, which it may write: the daemon has just given it.
  absl::StatusOr<std::byte*> own_row(wire::RowRef at, std::uint32_t units);

  // RowResolver.
  const wire::SubscriberChunk* subscriber_chunk(wire::FileRange at) override;

 private:
  struct MappedWriter : KnownWriter {
    std::shared_ptr<Mapping> mapping;
  };
  struct MappedReader : KnownReader {
    std::shared_ptr<Mapping> mapping;
  };
  const MappedWriter* known_writer(wire::RowRef at) const;  // mutex_ is held
  const wire::WriterRow* find_writer_row(wire::RowRef at) override;
  const wire::ReaderRow* find_reader_row(wire::RowRef at) override;
  void forget_dead_readers();

  MappingCache& mappings_;
  const wire::BoardRecord* board_ = nullptr;
  std::uint32_t slots_ = 0;
  absl::flat_hash_map<std::uint64_t, MappedReader> readers_;  // used inside of a write alone

  std::mutex mutex_;                                          // guards what follows
  std::map<std::uint32_t, std::shared_ptr<Mapping>> mapped_;  // boards, segments, own pages
  std::vector<std::unique_ptr<MappedWriter>> writers_;        // never shrinks: readers use its rows
};

}  // namespace memlease::internal
