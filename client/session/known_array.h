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
      : ArrayFacts(answer),
        name(answer.spec.name),
        kind(std::move(with_strides)),
        rare_(answer == RareFacts() ? nullptr : std::make_unique<const RareFacts>(answer)) {}
  wire::SlotLayout layout() const { return {kind->slots, kind->max_slots}; }
  // What the array does not have is there as nothing.
  const RareFacts& rare() const {
    static const RareFacts kNone;
    return rare_ == nullptr ? kNone : *rare_;
  }

  std::string name;
  wire::SharedKind kind;  // with its strides, where it has those of C order, too

 private:
  std::unique_ptr<const RareFacts> rare_;
};

}  // namespace memlease::internal
