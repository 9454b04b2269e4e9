#include "wire/grpc/grpc_needs.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "wire/descriptor_limit.h"
#include "wire/error.h"
#include "wire/unique_fd.h"

namespace memlease::wire {
namespace {

constexpr std::size_t kOfACall = 4;  // for sets of descriptors, and a socket for ours
constexpr std::size_t kOfAServer = 32;

absl::Status check(std::size_t count, std::string_view purpose) {
  std::vector<UniqueFd> tried(count);
  for (UniqueFd& fd : tried) {
    fd = UniqueFd(&fd == tried.data() ? ::eventfd(0, EFD_CLOEXEC)
                                      : ::fcntl(tried[0].get(), F_DUPFD_CLOEXEC, 0));
    if (!fd) {
      return errno_error(ErrorCode::kOutOfMemory,
                         fmt::format("this process has too few descriptors left {}", purpose),
                         errno, "Close files, or " + raise_descriptor_limit() + ".");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status check_descriptors(std::string_view purpose) { return check(kOfACall, purpose); }

absl::Status check_descriptors_to_serve() { return check(kOfAServer, "to serve"); }

}  // namespace memlease::wire
