// Whether the daemon's books are right: what accounts, tables, totals and boards claim is worked
// out once more from what is there, and compared. What clients write is not looked at, so nothing
// that they do makes it wrong: what is found is a defect of the daemon.
//
// Called by AdminService, with the core under the daemon's mutex, and by tests. Changes nothing and
// cannot fail. It looks at everything in one go, as sums hold at one moment only: some 30 ms for
// 10,000 arrays that one process has open, in which nobody else has the core, and in proportion for
// more. So it is for the daemon's own user and root, who ask seldom.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "server/core/broker.h"

namespace memlease::server {

struct Audit {
  static constexpr std::size_t kMostViolations = 100;  // that are kept

  // Each a sentence; `wrong` counts those that are not kept, too.
  std::vector<std::string> violations;
  std::uint64_t wrong = 0;
  // What was looked at.
  std::uint64_t arrays = 0;
  std::uint64_t sessions = 0;
  std::uint64_t memberships = 0;
  std::uint64_t files = 0;
  std::uint64_t places = 0;  // of slots, rows and records in them
  std::uint64_t accounts = 0;

  // Whether it holds: what else is to be looked at may not be there otherwise.
  template <typename... Values>
  bool require(bool holds, fmt::format_string<Values...> otherwise, Values&&... values) {
    if (holds) return true;
    ++wrong;
    if (violations.size() < kMostViolations) {
      violations.push_back(fmt::format(otherwise, std::forward<Values>(values)...));
    }
    return false;
  }
};

Audit audit(const Broker& broker);

// Its parts. Who is whose member, and what boards and names say of it; audit_arrays.cc.
void audit_arrays(const Broker& broker, Audit& audit);
// What is in which file, that no two places overlap, and who is charged for what; audit.cc.
void audit_charges(const Broker& broker, Audit& audit);

}  // namespace memlease::server
