#include "server/config/name_reservation.h"

#include <grp.h>
#include <pwd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "server/config/to_number.h"
#include "wire/array_spec.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

absl::Status wrong_holder(const std::string& what) {
  return wire::make_error(wire::ErrorCode::kInvalidArgument, what);
}

// `find`: getpwnam_r(3) or getgrnam_r(3). Nothing if there is none.
template <typename Entry, typename Find>
absl::StatusOr<std::optional<Entry>> look_up(Find find, const std::string& name) {
  std::vector<char> text(4096);
  for (;;) {
    Entry entry{};
    Entry* found = nullptr;
    const int error = find(name.c_str(), &entry, text.data(), text.size(), &found);
    if (error == 0) return found == nullptr ? std::nullopt : std::optional<Entry>(entry);
    if (error != ERANGE) {
      return wrong_holder(fmt::format("'{}' cannot be looked up: {}.", name, std::strerror(error)));
    }
    text.resize(text.size() * 2);
  }
}

absl::StatusOr<std::uint32_t> id_of(const std::string& holder, bool for_group) {
  const bool is_number = holder.find_first_not_of("0123456789") == std::string::npos;
  if (is_number) {
    const auto number = to_number<std::uint32_t>(holder);
    // The largest one means nobody.
    if (number && *number != std::numeric_limits<std::uint32_t>::max()) return *number;
    return wrong_holder(fmt::format("'{}' is not the number of a user or group.", holder));
  }
  if (for_group) {
    const auto found = look_up<group>(getgrnam_r, holder);
    if (!found.ok()) return found.status();
    if (*found) return (*found)->gr_gid;
  } else {
    const auto found = look_up<passwd>(getpwnam_r, holder);
    if (!found.ok()) return found.status();
    if (*found) return (*found)->pw_uid;
  }
  return wrong_holder(
      fmt::format("this machine has no {} '{}': give one of 'getent {}', or a number.",
                  for_group ? "group" : "user", holder, for_group ? "group" : "passwd"));
}

}  // namespace

absl::StatusOr<NameRule> reserve_names(std::string_view pattern, bool for_group,
                                       std::string_view holder) {
  auto parsed = NamePattern::parse(pattern);
  if (!parsed.ok()) return parsed.status();
  std::string example(pattern);
  std::ranges::replace_if(example, [](char c) { return c == '*' || c == '?'; }, 'a');
  if (auto matched = wire::validate_name(example); !matched.ok()) {
    return wrong_holder(
        fmt::format("no name matches \"{}\": {}.", pattern, wire::message_of(matched)));
  }
  const std::string name(holder);
  const auto id = id_of(name, for_group);
  if (!id.ok()) return id.status();
  return NameRule{*parsed, std::string(pattern), for_group, *id, name};
}

std::string print_rule(const NameRule& rule) {
  return fmt::format("\"{}\" = {{{} = \"{}\"}}", rule.pattern_text,
                     rule.for_group ? "group" : "owner", rule.holder);
}

std::string print_rules(const std::vector<NameRule>& rules) {
  std::vector<std::string> lines;
  for (const NameRule& rule : rules) lines.push_back(print_rule(rule));
  return fmt::format("{{{}}}", fmt::join(lines, ", "));
}

}  // namespace memlease::server
