// Names that the operator keeps for a user or a group: whose arrays may have them. Pure values; the
// settings make them, Broker asks them when an array is created. A name that exists already is
// not asked for: a reload takes no array away.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/core/name_pattern.h"
#include "server/core/session_host.h"

namespace memlease::server {

// One line of [names] in the settings.
struct NameRule {
  NamePattern pattern;
  std::string pattern_text;  // the same as the operator wrote it
  bool for_group = false;
  std::uint32_t id = 0;  // the user's, or the group's
  std::string holder;    // the same, as the operator says it: "alice", "1000"
};

class NameRules {
 public:
  NameRules() = default;
  explicit NameRules(std::vector<NameRule> rules);

  // OK where no rule's pattern matches. Of those that match, the one counts that has most
  // characters other than * and ?, of several the first one. Root may create any name. kDenied,
  // which names the rule and whom it is for.
  absl::Status may_create(const PeerIdentity& peer, std::string_view name) const;

 private:
  std::vector<NameRule> rules_;  // the first one that matches counts
};

}  // namespace memlease::server
