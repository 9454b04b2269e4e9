#include "wire/protocol.h"

#include "wire/page_layout.h"

namespace memlease::wire {
namespace {

// The page layouts of each version. The line of a version that a release speaks never changes.
constexpr std::uint64_t page_layouts_of(std::uint16_t protocol) {
  switch (protocol) {
    case 1:
      return 18038772003779516581U;
    default:
      return 0;
  }
}

// A page has one layout, whoever maps it: so all versions that this build speaks have the same one.
static_assert(PageLayouts<page_layout_hash(), page_layouts_of(kMaxProtocol)>::kUnchanged);
static_assert(PageLayouts<page_layout_hash(), page_layouts_of(kMinProtocol)>::kUnchanged);

}  // namespace

std::uint16_t min_protocol() { return kMinProtocol; }
std::uint16_t max_protocol() { return kMaxProtocol; }
std::uint64_t page_layouts() { return page_layout_hash(); }

}  // namespace memlease::wire
