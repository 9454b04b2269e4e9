// Stands in for wire/protocol.cc in programs from between two releases, whose pages have been laid
// out otherwise since.
#include "wire/page_layout.h"
#include "wire/protocol.h"

namespace memlease::wire {

std::uint16_t min_protocol() { return kMinProtocol; }
std::uint16_t max_protocol() { return kMaxProtocol; }
std::uint64_t page_layouts() { return page_layout_hash() + 1; }

}  // namespace memlease::wire
