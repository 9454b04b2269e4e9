// A pattern of names, as lists take it: `*` is any text, also across slashes, `?` any one
// character, everything else itself. The pattern comes from a peer. Immutable, hence thread-safe.
#pragma once

#include <array>
#include <bitset>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "wire/array_spec.h"

namespace memlease::server {

class NamePattern {
 public:
  // Empty matches every name. kInvalidArgument for one that is too long, or has characters that no
  // name has beside `*` and `?`.
  static absl::StatusOr<NamePattern> parse(std::string_view text);

  // What each name begins with that matches: the pattern up to its first `*` or `?`.
  const std::string& prefix() const { return prefix_; }
  // Takes time for each character of the name, whatever the pattern is.
  bool matches(std::string_view name) const;

 private:
  // A bit for each number of characters of the pattern, without its stars, that may have matched.
  using Places = std::bitset<wire::kMaxNameBytes + 1>;

  NamePattern() = default;

  std::string prefix_;
  std::size_t end_ = 0;                // this place is a match
  Places stars_;                       // the places before which a star stands
  Places any_;                         // from these places `?` leads on
  std::array<Places, 128> by_char_{};  // from these a character leads on, beside any_
};

}  // namespace memlease::server
