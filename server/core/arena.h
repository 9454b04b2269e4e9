// Bookkeeping of offsets inside one shared file: best fit, neighbours joined at once. Holds no
// memory of the file itself. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"

namespace memlease::server {

class Arena {
 public:
  explicit Arena(std::uint64_t size_bytes);

  // alignment: a power of two. nullopt if no gap is large enough. size_bytes > 0.
  std::optional<std::uint64_t> allocate(std::uint64_t size_bytes, std::uint64_t alignment);
  // What allocate() has given for this size, and has not been freed: it is the caller that knows.
  void free(std::uint64_t offset, std::uint64_t size_bytes);

  std::uint64_t size_bytes() const { return size_bytes_; }
  std::uint64_t used_bytes() const { return used_bytes_; }
  bool empty() const { return used_bytes_ == 0; }

 private:
  friend class Auditor;  // server/core/audit.h
  void add_gap(std::uint64_t offset, std::uint64_t size);
  void remove_gap(std::uint64_t offset, std::uint64_t size);

  std::uint64_t size_bytes_;
  std::uint64_t used_bytes_ = 0;
  absl::btree_map<std::uint64_t, std::uint64_t> gaps_;                     // offset -> size
  absl::btree_set<std::pair<std::uint64_t, std::uint64_t>> gaps_by_size_;  // (size, offset)
};

}  // namespace memlease::server
