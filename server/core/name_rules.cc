#include "server/core/name_rules.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "server/core/access.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

std::size_t letters_of(const NameRule& rule) {
  return static_cast<std::size_t>(
      std::ranges::count_if(rule.pattern_text, [](char c) { return c != '*' && c != '?'; }));
}

bool is_holder(const PeerIdentity& peer, const NameRule& rule) {
  return rule.for_group ? is_in_group(peer, rule.id) : peer.uid == rule.id;
}

}  // namespace

NameRules::NameRules(std::vector<NameRule> rules) : rules_(std::move(rules)) {
  std::ranges::stable_sort(rules_, std::ranges::greater(), letters_of);
}

absl::Status NameRules::may_create(const PeerIdentity& peer, std::string_view name) const {
  if (peer.uid == 0) return absl::OkStatus();
  const auto rule = std::ranges::find_if(
      rules_, [&](const NameRule& known) { return known.pattern.matches(name); });
  if (rule == rules_.end() || is_holder(peer, *rule)) return absl::OkStatus();
  return wire::make_error(
      wire::ErrorCode::kDenied,
      fmt::format("uid {} may not create '{}': names like '{}' are reserved for {} {}", peer.uid,
                  name, rule->pattern_text, rule->for_group ? "group" : "user", rule->holder),
      "Take another name, or ask the operator of this daemon to change [names] in its settings.");
}

}  // namespace memlease::server
