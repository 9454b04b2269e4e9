// Text as protobuf and terminals take it. Pure functions.
#pragma once

#include <cstddef>
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

inline bool is_control(char byte) {
  return static_cast<unsigned char>(byte) < 0x20 || byte == 0x7F;
}
// U+0080 to U+009F are control characters, too. In UTF-8 their second byte is their number.
inline bool is_long_control(std::string_view utf8, std::size_t at) {
  return utf8[at] == '\xC2' && at + 1 < utf8.size() &&
         static_cast<unsigned char>(utf8[at + 1]) < 0xA0;
}
// What a terminal can be trusted with: '?' for control characters and for what is not UTF-8. Names
// of processes are chosen by their owners, who may not move other people's cursors.
std::string printable(std::string_view text);

}  // namespace memlease::wire
