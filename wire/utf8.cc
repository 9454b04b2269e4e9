#include "wire/utf8.h"

#include <cstddef>

namespace memlease::wire {
namespace {

// Bytes of the valid UTF-8 character that starts at `text`; 0 if there is none.
std::size_t character_bytes(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  const std::size_t count = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < count) return 0;
  for (std::size_t i = 1; i < count; ++i) {
    if (!is_utf8_continuation(text[i])) return 0;
  }
  // Longer than needed, a surrogate, or beyond the last code point.
  if (first == 0xE0 && at(1) < 0xA0) return 0;
  if (first == 0xED && at(1) > 0x9F) return 0;
  if (first == 0xF0 && at(1) < 0x90) return 0;
  if (first == 0xF4 && at(1) > 0x8F) return 0;
  return count;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t count = character_bytes(text);
    if (count == 0) return false;
    text.remove_prefix(count);
  }
  return true;
}

std::string to_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t count = character_bytes(text);
    out += count == 0 ? std::string_view("?") : text.substr(0, count);
    text.remove_prefix(count == 0 ? 1 : count);
  }
  return out;
}

Control control_at(std::string_view utf8, std::size_t at) {
  const auto byte = [&](std::size_t i) -> std::uint32_t {
    return at + i < utf8.size() ? static_cast<unsigned char>(utf8[at + i]) : 0;
  };
  const auto low_bits = [&](std::size_t i) { return byte(i) & 0x3FU; };
  const std::uint32_t first = byte(0);
  if (first < 0x20 || first == 0x7F) return {1, first};
  if (first == 0xC2 || first == 0xD8) {
    const std::uint32_t number = ((first & 0x1FU) << 6U) | low_bits(1);
    if (number < 0xA0 || number == 0x61C) return {2, number};  // C1; ARABIC LETTER MARK
  }
  if (first == 0xE2) {
    const std::uint32_t number = 0x2000U | (low_bits(1) << 6U) | low_bits(2);
    const bool is_mark = number == 0x200E || number == 0x200F;
    const bool is_embedding = number >= 0x202A && number <= 0x202E;
    const bool is_isolate = number >= 0x2066 && number <= 0x2069;
    if (is_mark || is_embedding || is_isolate) return {3, number};
  }
  return {};
}

std::string printable(std::string_view text) {
  std::string out = to_utf8(text);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (const Control control = control_at(out, i); control.bytes != 0) {
      out.replace(i, control.bytes, "?");
    }
  }
  return out;
}

}  // namespace memlease::wire
