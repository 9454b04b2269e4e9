// What a core has disposed of, without a disposer: on the thread that owns the core.
#pragma once

#include <sys/types.h>

#include <memory>
#include <utility>
#include <vector>

#include "server/core/garbage.h"

namespace memlease::testing {

// Tries each of them; what cannot go stays.
inline void let_go(std::vector<std::shared_ptr<server::Garbage>>& heap) {
  std::vector<std::shared_ptr<server::Garbage>> tried = std::exchange(heap, {});
  for (auto& garbage : tried) {
    const bool has_gone = garbage->go();
    garbage->settle(has_gone);
    if (!has_gone) heap.push_back(std::move(garbage));
  }
}

// At once; what cannot go stays for good.
inline void let_go_once(uid_t /*payer*/, const std::shared_ptr<server::Garbage>& garbage) {
  garbage->settle(garbage->go());
}

}  // namespace memlease::testing
