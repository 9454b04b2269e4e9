#include "wire/grpc/grpc_needs.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>

#include "wire/descriptor_limit.h"
#include "wire/error.h"
#include "wire/unique_fd.h"

namespace memlease::wire {
namespace {

constexpr std::size_t kDescriptors = 4;  // for its sets of descriptors, and a socket for ours

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

}  // namespace memlease::wire
