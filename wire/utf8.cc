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

std::string printable(std::string_view text) {
  std::string out = to_utf8(text);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (is_control(out[i])) out[i] = '?';
    if (is_long_control(out, i)) out.replace(i, 2, "?");
  }
  return out;
}

}  // namespace memlease::wire
