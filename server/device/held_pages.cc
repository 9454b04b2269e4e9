#include "server/device/held_pages.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "server/device/allocation_error.h"

namespace memlease::server {
namespace {

using wire::UniqueFd;

constexpr std::uint64_t kMostPagesOfPipe = 256;           // pipe-max-size, by default
constexpr std::size_t kMostHeld = 16 * kMostPagesOfPipe;  // of one file

// Has the pipe keep the page that stands there: 1; 0: not now; -1: the kernel does not do that.
int hold_page(int fd, std::uint64_t at, int pipe) {
  auto offset = static_cast<off_t>(at);
  ssize_t held = -1;
  do {
    held = splice(fd, &offset, pipe, nullptr, 1, SPLICE_F_NONBLOCK);
  } while (held == -1 && errno == EINTR);
  if (held == 1) return 1;
  return held == -1 && (errno == EINVAL || errno == ENOSYS || errno == EPERM) ? -1 : 0;
}

}  // namespace

absl::StatusOr<std::vector<UniqueFd>> hold_pages(int fd, std::uint64_t size_bytes,
                                                 std::uint64_t pages_of_range) {
  const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  std::vector<std::uint64_t> places;
  for (std::uint64_t range = 0; range < size_bytes && places.size() < kMostHeld;
       range += kHugePageBytes) {
    const std::uint64_t end = std::min(size_bytes, range + (pages_of_range * page_bytes));
    for (std::uint64_t at = range; at < end; at += page_bytes) places.push_back(at);
  }
  std::vector<UniqueFd> pipes;
  bool has_room = true;  // else the kernel gives a user's pipes no more (pipe-user-pages-soft)
  for (auto next = places.begin(); next != places.end() && has_room;) {
    std::array<int, 2> ends{-1, -1};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return allocation_error("pipe2", size_bytes);
    pipes.emplace_back(ends[0]);
    const UniqueFd fill(ends[1]);
    const auto wanted =
        std::min<std::uint64_t>(kMostPagesOfPipe, static_cast<std::uint64_t>(places.end() - next));
    has_room = fcntl(fill.get(), F_SETPIPE_SZ, static_cast<int>(wanted * page_bytes)) >= 0;
    for (std::uint64_t held = 0; held < wanted; ++held, ++next) {
      // What has never been written is not read from the file.
      if (pwrite(fd, "", 1, static_cast<off_t>(*next)) != 1)
        return allocation_error("pwrite", size_bytes);
      const int done = hold_page(fd, *next, fill.get());
      if (done == -1) return pipes;
      if (done == 0 && next == places.begin()) return allocation_error("splice", size_bytes);
      if (done == 0) {
        has_room = has_room && held != 0;
        break;
      }
    }
  }
  return pipes;
}

}  // namespace memlease::server
