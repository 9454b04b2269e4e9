// Stands in for wire/protocol.cc in programs of a later release, which speaks no version of the
// protocol that this one speaks.
#include "wire/protocol.h"

namespace memlease::wire {

std::uint16_t min_protocol() { return kMaxProtocol + 1; }
std::uint16_t max_protocol() { return kMaxProtocol + 1; }

}  // namespace memlease::wire
