// Text as protobuf and terminals take it. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace memlease::wire {

bool is_utf8(std::string_view text);
// `text` with '?' for each byte that is not part of valid UTF-8. A message's string must be UTF-8,
// or it is dropped as a whole by its reader; names of processes need not be.
std::string to_utf8(std::string_view text);
// Of UTF-8: the byte continues the character before it.
inline bool is_utf8_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

// A character that moves a cursor, or turns the order of what is around it, as U+202E does.
struct Control {
  std::size_t bytes = 0;  // 0: the character at that place is none
  std::uint32_t number = 0;
};
Control control_at(std::string_view utf8, std::size_t at);
// What a terminal can be trusted with: '?' for control characters and for what is not UTF-8. Names
// of processes are chosen by their owners, who may not move other people's cursors.
std::string printable(std::string_view text);

}  // namespace memlease::wire
