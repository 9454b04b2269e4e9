// Bookkeeping of offsets inside one shared file: best fit, neighbours joined at once. Each step
// takes as long as the logarithm of how many gaps there are. Holds no memory of the file itself.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"

namespace memlease::server {

class Arena {
 public:
  explicit Arena(std::uint64_t size_bytes);

  // alignment: a power of two. size_bytes > 0. nullopt if no gap is large enough; where that
  // depends on where a gap begins, a few are tried.
  std::optional<std::uint64_t> allocate(std::uint64_t size_bytes, std::uint64_t alignment);
  // What allocate() has given for this size, and has not been freed: it is the caller that knows.
  void free(std::uint64_t offset, std::uint64_t size_bytes);

  std::uint64_t size_bytes() const { return size_bytes_; }
  std::uint64_t used_bytes() const { return used_bytes_; }
  bool empty() const { return used_bytes_ == 0; }

 private:
  friend class Auditor;  // server/core/audit.h
  using GapsBySize = absl::btree_set<std::pair<std::uint64_t, std::uint64_t>>;  // (size, offset)
  GapsBySize::const_iterator find_gap(std::uint64_t size_bytes, std::uint64_t alignment) const;
  void add_gap(std::uint64_t offset, std::uint64_t size);
  void remove_gap(std::uint64_t offset, std::uint64_t size);

  std::uint64_t size_bytes_;
  std::uint64_t used_bytes_ = 0;
  absl::btree_map<std::uint64_t, std::uint64_t> gaps_;  // offset -> size
  GapsBySize gaps_by_size_;
};

}  // namespace memlease::server
