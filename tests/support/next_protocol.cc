// Stands in for wire/protocol.cc in programs of a later release, which speaks no version of the
// protocol that this one speaks.
#include "wire/page_layout.h"
#include "wire/protocol.h"

namespace memlease::wire {

std::uint16_t min_protocol() { return kMaxProtocol + 1; }
std::uint16_t max_protocol() { return kMaxProtocol + 1; }
std::uint64_t page_layouts() { return page_layout_hash(); }

}  // namespace memlease::wire
