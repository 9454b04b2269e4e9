// Pages of a file that nobody else has replaced.
//
// Who has a file mapped may have the kernel put a huge page in the place of its pages
// (MADV_COLLAPSE, Linux 6.1): it takes these from everybody meanwhile, and who looks at them waits
// for as long as that thread is kept from a processor. It does not begin where somebody else has a
// reference to one of the pages: pipes that nobody reads have them, to the first ones of each
// range. To several: how many references there are, and how many should be, are two looks, between
// which an unmapping may come, but not each time.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wire/unique_fd.h"

namespace memlease::server {

inline constexpr std::uint64_t kHugePageBytes = std::uint64_t{2} << 20;

// So that the pages are there, and are read from the file. kOutOfMemory.
absl::Status write_zeros(int fd, std::uint64_t at, std::uint64_t size_bytes);

// The pipes, until whose ends it holds. `pages_of_range`: how many of each range of a huge page.
// Writes zeros to them, so it is for a file that nobody has yet.
absl::StatusOr<std::vector<wire::UniqueFd>> hold_pages(int fd, std::uint64_t size_bytes,
                                                       std::uint64_t pages_of_range);

}  // namespace memlease::server
