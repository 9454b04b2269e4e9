// A line of the table [names] in the file of settings: "sim/*" = {owner = "alice"}. Private to
// server/config.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/name_rules.h"

namespace memlease::server {

// Looks the user or group up in the system's account database, which may take as long as that
// takes; one of digits is a number. The error does not say where it stands.
absl::StatusOr<NameRule> reserve_names(std::string_view pattern, bool for_group,
                                       std::string_view holder);

// In the file's syntax, such that it can be read back.
std::string print_rule(const NameRule& rule);
// All of them, on one line.
std::string print_rules(const std::vector<NameRule>& rules);

}  // namespace memlease::server
