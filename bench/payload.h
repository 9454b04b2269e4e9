// Bytes that somebody really writes and reads: handing a pointer over says nothing about them.
#pragma once

#include <cstdint>
#include <span>

namespace memlease::bench {

inline void fill(std::span<std::uint64_t> words, std::uint64_t value) {
  for (std::uint64_t& word : words) word = value;
}

// Four sums, so that memory is waited for and not the addition before.
inline std::uint64_t sum(std::span<const std::uint64_t> words) {
  std::uint64_t sums[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= words.size(); i += 4) {
    for (std::size_t k = 0; k < 4; ++k) sums[k] += words[i + k];
  }
  for (; i < words.size(); ++i) sums[0] += words[i];
  return sums[0] + sums[1] + sums[2] + sums[3];
}

}  // namespace memlease::bench
