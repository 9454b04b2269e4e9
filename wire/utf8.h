// Text as protobuf and terminals take it. Pure functions.
#pragma once

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

}  // namespace memlease::wire
