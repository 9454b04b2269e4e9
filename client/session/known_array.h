// An array as a process that has it open knows it: what the daemon has answered, of which there may
// be a million, but for what only opening needs.
#pragma once

#include <string>
#include <utility>

#include "client/session/control_port.h"
#include "wire/board.h"
#include "wire/recent_kinds.h"

namespace memlease::internal {

struct KnownArray : ArrayFacts {
  KnownArray(const OpenAnswer& answer, wire::SharedKind with_strides)
      : ArrayFacts(answer), name(answer.spec.name), kind(std::move(with_strides)) {}
  wire::SlotLayout layout() const { return {kind->slots, kind->max_slots}; }

  std::string name;
  wire::SharedKind kind;  // with its strides, where it has those of C order, too
};

}  // namespace memlease::internal
