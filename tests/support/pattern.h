// Bytes that tell which version they are, who wrote them, and whether they belong together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "fmt/format.h"

namespace memlease::testing {

// At least two words. Other versions and other writers give other words at every place.
class Pattern {
 public:
  Pattern(std::uint64_t* words, std::size_t count) : words_(words), count_(count) {}

  // In two steps, so that a process may die in the middle of the bytes.
  void fill_first_half(std::uint64_t version, std::uint64_t writer) {
    words_[0] = version;
    words_[1] = writer;
    fill(2, count_ / 2);
  }
  // Or up to a word, two or more.
  void fill_to(std::uint64_t version, std::uint64_t writer, std::size_t end) {
    words_[0] = version;
    words_[1] = writer;
    fill(2, end);
  }
  void fill_second_half() { fill(count_ / 2 < 2 ? 2 : count_ / 2, count_); }

  std::uint64_t writer() const { return words_[1]; }
  // "" if the bytes are this version's.
  std::string wrong(std::uint64_t version) const {
    if (words_[0] != version) return fmt::format("version {} has bytes of {}", version, words_[0]);
    for (std::size_t i = 2; i < count_; ++i) {
      if (words_[i] == word(i)) continue;
      return fmt::format("version {} is torn at word {} of {}", version, i, count_);
    }
    return "";
  }

 private:
  std::uint64_t word(std::size_t i) const {
    return (words_[0] * 0x9e3779b97f4a7c15U) ^ (words_[1] * 0xc2b2ae3d27d4eb4fU) ^ (i << 17);
  }
  void fill(std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) words_[i] = word(i);
  }

  std::uint64_t* words_;
  std::size_t count_;
};

}  // namespace memlease::testing
