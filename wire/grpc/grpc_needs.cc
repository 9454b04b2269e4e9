#include "wire/grpc/grpc_needs.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>
#include <system_error>

#include "wire/descriptor_limit.h"
#include "wire/error.h"
#include "wire/try_threads.h"
#include "wire/unique_fd.h"

namespace memlease::wire {
namespace {

constexpr std::size_t kDescriptors = 4;  // for its sets of descriptors, and a socket for ours
constexpr std::size_t kThreads = 16;     // nine to fifteen were seen

// Of all users; none where /proc does not say.
std::optional<std::uint64_t> threads_of_machine() {
  std::ifstream file("/proc/loadavg");
  std::string load[3], tasks;  // "2/345": runnable, and all
  file >> load[0] >> load[1] >> load[2] >> tasks;
  const std::size_t slash = tasks.find('/');
  if (!file || slash == std::string::npos) return std::nullopt;
  return std::strtoull(tasks.c_str() + slash + 1, nullptr, 10);
}

bool threads_may_be_short() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NPROC, &limit) != 0) return true;
  if (limit.rlim_cur == RLIM_INFINITY) return false;
  const auto all = threads_of_machine();
  return !all || *all + kThreads > limit.rlim_cur;
}

}  // namespace

absl::Status check_descriptors() {
  std::array<UniqueFd, kDescriptors> tried;
  for (UniqueFd& fd : tried) {
    fd = UniqueFd(&fd == tried.data() ? ::eventfd(0, EFD_CLOEXEC)
                                      : ::fcntl(tried[0].get(), F_DUPFD_CLOEXEC, 0));
    if (!fd) {
      return errno_error(ErrorCode::kOutOfMemory,
                         "this process has too few descriptors left to call the daemon", errno,
                         "Close files, or " + raise_descriptor_limit() + ".");
    }
  }
  return absl::OkStatus();
}

absl::Status check_threads() {
  if (!threads_may_be_short()) return absl::OkStatus();
  try {
    try_threads(kThreads);
  } catch (const std::system_error& error) {
    return make_error(
        ErrorCode::kOutOfMemory,
        std::string("this process gets no threads to call the daemon: ") + error.what(),
        "End other processes of this user, or raise the limit (ulimit -u).");
  }
  return absl::OkStatus();
}

}  // namespace memlease::wire
