#include "server/core/name_pattern.h"

#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

absl::Status invalid(const std::string& what) {
  return wire::make_error(wire::ErrorCode::kInvalidArgument, what,
                          "A pattern is a name in which * is any text and ? any one character: "
                          "sim/*/density.");
}

}  // namespace

absl::StatusOr<NamePattern> NamePattern::parse(std::string_view text) {
  if (text.size() > wire::kMaxNameBytes) {
    return invalid(fmt::format("the pattern has {} bytes, at most {} are possible", text.size(),
                               wire::kMaxNameBytes));
  }
  NamePattern pattern;
  pattern.prefix_ = text.substr(0, text.find_first_of("*?"));
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '*') {
      pattern.stars_.set(pattern.end_);
    } else if (c == '?') {
      pattern.any_.set(pattern.end_++);
    } else if (c == '/' || c == '@' || wire::is_name_char(c)) {
      pattern.by_char_.at(static_cast<unsigned char>(c)).set(pattern.end_++);
    } else {
      return invalid(fmt::format("the pattern has byte 0x{:02x} at position {}",
                                 static_cast<unsigned char>(c), i));
    }
  }
  if (text.empty()) pattern.stars_.set(0);
  return pattern;
}

// All ways to match are followed at once: at each character every place moves on, stays on its
// star, or is given up.
bool NamePattern::matches(std::string_view name) const {
  Places places;
  places.set(0);
  for (const char c : name) {
    places = ((places & (any_ | by_char_.at(static_cast<unsigned char>(c) & 0x7f))) << 1) |
             (places & stars_);
  }
  return places.test(end_);
}

}  // namespace memlease::server
