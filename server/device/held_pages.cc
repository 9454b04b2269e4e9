#include "server/device/held_pages.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "server/device/allocation_error.h"

namespace memlease::server {
namespace {

using wire::UniqueFd;

constexpr std::uint64_t kMostPagesOfPipe = 256;             // pipe-max-size, by default
constexpr std::uint64_t kMostHeld = 16 * kMostPagesOfPipe;  // of one file

// Pages one behind the other.
struct Run {
  std::uint64_t at;
  std::uint64_t bytes;
};

// Has the pipe keep the pages that stand there. How many bytes of them: fewer, for now; nothing:
// the kernel does not do that.
std::optional<std::uint64_t> hold_run(int fd, const Run& run, int pipe) {
  std::uint64_t held = 0;
  while (held < run.bytes) {
    auto offset = static_cast<off_t>(run.at + held);
    const ssize_t more = splice(fd, &offset, pipe, nullptr, run.bytes - held, SPLICE_F_NONBLOCK);
    if (more == -1 && errno == EINTR) continue;
    if (more == -1 && (errno == EINVAL || errno == ENOSYS || errno == EPERM)) return std::nullopt;
    if (more <= 0) break;
    held += static_cast<std::uint64_t>(more);
  }
  return held;
}

std::vector<Run> runs_of(std::uint64_t size_bytes, std::uint64_t bytes_of_range,
                         std::uint64_t most_bytes) {
  std::vector<Run> runs;
  for (std::uint64_t at = 0;
       at < std::min(size_bytes, most_bytes / bytes_of_range * kHugePageBytes);
       at += kHugePageBytes) {
    runs.push_back({at, std::min(bytes_of_range, size_bytes - at)});
  }
  return runs;
}

}  // namespace

absl::Status write_zeros(int fd, std::uint64_t at, std::uint64_t size_bytes) {
  static const std::vector<char> kZeros(std::size_t{64} << 10);
  for (std::uint64_t done = 0; done < size_bytes;) {
    const std::uint64_t step = std::min<std::uint64_t>(kZeros.size(), size_bytes - done);
    const ssize_t written = pwrite(fd, kZeros.data(), step, static_cast<off_t>(at + done));
    if (written == -1 && errno == EINTR) continue;
    if (written <= 0) return allocation_error("pwrite", size_bytes);
    done += static_cast<std::uint64_t>(written);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<UniqueFd>> hold_pages(int fd, std::uint64_t size_bytes,
                                                 std::uint64_t pages_of_range) {
  const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const auto runs = runs_of(size_bytes, pages_of_range * page_bytes, kMostHeld * page_bytes);
  std::vector<UniqueFd> pipes;
  bool has_room = true;  // else the kernel gives a user's pipes no more (pipe-user-pages-soft)
  for (auto run = runs.begin(); run != runs.end() && has_room;) {
    std::array<int, 2> ends{-1, -1};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return allocation_error("pipe2", size_bytes);
    pipes.emplace_back(ends[0]);
    const UniqueFd fill(ends[1]);
    const std::uint64_t left = static_cast<std::uint64_t>(runs.end() - run) * pages_of_range;
    std::uint64_t room = std::min(kMostPagesOfPipe, left) * page_bytes;
    has_room = fcntl(fill.get(), F_SETPIPE_SZ, static_cast<int>(room)) >= 0;
    for (; run != runs.end() && room >= run->bytes; room -= run->bytes, ++run) {
      // What has never been written is not read from the file.
      if (auto status = write_zeros(fd, run->at, run->bytes); !status.ok()) return status;
      const auto held = hold_run(fd, *run, fill.get());
      if (!held) return pipes;
      if (*held == 0 && run == runs.begin()) return allocation_error("splice", size_bytes);
      if (*held == run->bytes) continue;
      has_room = false;
      break;
    }
  }
  return pipes;
}

}  // namespace memlease::server
