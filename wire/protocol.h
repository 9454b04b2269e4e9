// Which versions of the protocol this build speaks. A version is the frames of the attach channel,
// the layout of the pages that processes share (wire/page_layout.h), and the steps that are taken
// on them. docs/compatibility.md says what is promised about it.
#pragma once

#include <cstdint>

namespace memlease::wire {

inline constexpr std::uint16_t kMinProtocol = 1;
inline constexpr std::uint16_t kMaxProtocol = 1;

// The same, for the code that speaks, so that a test can link a build of another release: it puts a
// file of its own in the place of wire/protocol.cc (tests/support/next_protocol.cc).
std::uint16_t min_protocol();
std::uint16_t max_protocol();
// The layouts of this build's pages, as one number. Builds of one version have the same, but for
// those between two releases.
std::uint64_t page_layouts();

}  // namespace memlease::wire
