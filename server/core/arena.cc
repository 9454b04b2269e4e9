#include "server/core/arena.h"

#include <cassert>
#include <iterator>

namespace memlease::server {
namespace {

constexpr int kMostTries = 64;

std::uint64_t padding_at(std::uint64_t offset, std::uint64_t alignment) {
  return -offset & (alignment - 1);
}

}  // namespace

Arena::Arena(std::uint64_t size_bytes) : size_bytes_(size_bytes) {
  if (size_bytes > 0) add_gap(0, size_bytes);
}

std::optional<std::uint64_t> Arena::allocate(std::uint64_t size_bytes, std::uint64_t alignment) {
  assert(size_bytes > 0 && alignment > 0 && (alignment & (alignment - 1)) == 0);
  const auto gap = find_gap(size_bytes, alignment);
  if (gap == gaps_by_size_.end()) return std::nullopt;
  const auto [gap_size, gap_offset] = *gap;
  const std::uint64_t padding = padding_at(gap_offset, alignment);
  const std::uint64_t offset = gap_offset + padding;
  remove_gap(gap_offset, gap_size);
  if (padding > 0) add_gap(gap_offset, padding);
  const std::uint64_t rest = gap_size - padding - size_bytes;
  if (rest > 0) add_gap(offset + size_bytes, rest);
  used_bytes_ += size_bytes;
  return offset;
}

Arena::GapsBySize::const_iterator Arena::find_gap(std::uint64_t size_bytes,
                                                  std::uint64_t alignment) const {
  auto gap = gaps_by_size_.lower_bound({size_bytes, 0});
  for (int tries = 0; tries < kMostTries && gap != gaps_by_size_.end(); ++tries, ++gap) {
    if (gap->first >= padding_at(gap->second, alignment) + size_bytes) return gap;
  }
  return gaps_by_size_.lower_bound({size_bytes + alignment - 1, 0});  // wherever that is
}

void Arena::free(std::uint64_t offset, std::uint64_t size_bytes) {
  assert(size_bytes > 0 && size_bytes <= used_bytes_ && offset + size_bytes <= size_bytes_);
  std::uint64_t begin = offset;
  std::uint64_t size = size_bytes;
  used_bytes_ -= size;
  const auto next = gaps_.lower_bound(begin);
  assert(next == gaps_.end() || next->first >= begin + size);
  if (next != gaps_.end() && next->first == begin + size) {
    const std::uint64_t next_size = next->second;
    remove_gap(begin + size, next_size);
    size += next_size;
  }
  const auto after = gaps_.lower_bound(begin);
  if (after != gaps_.begin()) {
    const auto before = std::prev(after);
    assert(before->first + before->second <= begin);
    if (before->first + before->second == begin) {
      begin = before->first;
      const std::uint64_t before_size = before->second;
      remove_gap(begin, before_size);
      size += before_size;
    }
  }
  add_gap(begin, size);
}

void Arena::add_gap(std::uint64_t offset, std::uint64_t size) {
  gaps_.emplace(offset, size);
  gaps_by_size_.emplace(size, offset);
}

void Arena::remove_gap(std::uint64_t offset, std::uint64_t size) {
  gaps_.erase(offset);
  gaps_by_size_.erase({size, offset});
}

}  // namespace memlease::server
