// Handles as text, for the lines between a test and its peer.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

namespace fakecuda::testing {

template <class Handle>
std::string to_hex(const Handle& handle) {
  std::string text;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&handle);
  for (std::size_t i = 0; i < sizeof handle; ++i) {
    char byte[3];
    std::snprintf(byte, sizeof byte, "%02x", bytes[i]);
    text += byte;
  }
  return text;
}

template <class Handle>
Handle from_hex(const std::string& text) {
  Handle handle = {};
  auto* bytes = reinterpret_cast<unsigned char*>(&handle);
  for (std::size_t i = 0; i < sizeof handle && 2 * i + 1 < text.size(); ++i) {
    bytes[i] = static_cast<unsigned char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return handle;
}

}  // namespace fakecuda::testing
