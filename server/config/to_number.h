// A number that is all of a text.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace memlease::server {

// Nothing for other texts, and for numbers that T has no room for.
template <typename T>
std::optional<T> to_number(std::string_view text, int base = 10) {
  T number = 0;
  const char* const end = text.data() + text.size();
  // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): its end is given
  const auto [stop, error] = std::from_chars(text.data(), end, number, base);
  if (text.empty() || error != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace memlease::server
