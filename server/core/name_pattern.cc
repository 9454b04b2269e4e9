#include "server/core/name_pattern.h"

namespace memlease::server {

absl::StatusOr<NamePattern> NamePattern::parse(std::string_view text) {
  if (auto status = wire::validate_pattern(text); !status.ok()) return status;
  NamePattern pattern;
  pattern.prefix_ = text.substr(0, text.find_first_of("*?"));
  for (const char c : text) {
    if (c == '*') {
      pattern.stars_.set(pattern.end_);
    } else if (c == '?') {
      pattern.any_.set(pattern.end_++);
    } else {
      pattern.by_char_.at(static_cast<unsigned char>(c)).set(pattern.end_++);
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
