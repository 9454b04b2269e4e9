// Kinds of arrays as they are kept with the arrays: those that are alike and are made one after
// another share one, as a program's mostly are. What is shared is never changed. Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <memory>

#include "wire/array_spec.h"

namespace memlease::wire {

using SharedKind = std::shared_ptr<const ArrayKind>;

class RecentKinds {
 public:
  // The one that is alike, if it was asked for among the last, else a new one.
  SharedKind share(const ArrayKind& kind) {
    const auto alike = std::ranges::find_if(
        kinds_, [&](const SharedKind& known) { return known != nullptr && *known == kind; });
    const auto found = alike == kinds_.end() ? kinds_.end() - 1 : alike;
    if (alike == kinds_.end()) *found = std::make_shared<const ArrayKind>(kind);
    std::rotate(kinds_.begin(), found, found + 1);
    return kinds_.front();
  }

 private:
  std::array<SharedKind, 8> kinds_;  // the one that was asked for last in front
};

}  // namespace memlease::wire
