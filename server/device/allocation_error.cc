#include "server/device/allocation_error.h"

#include <cerrno>
#include <string_view>

#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::server {

using wire::ErrorCode;

absl::Status allocation_error(const char* what, std::uint64_t size_bytes) {
  const int error = errno;
  std::string_view hint = "Free memory on this machine, or lower memory_limit_bytes.";
  if (error == EMFILE || error == ENFILE) {
    hint = "Raise the daemon's limit of open files (LimitNOFILE), or withdraw arrays.";
  } else if (error == EFBIG) {
    hint = "Start the daemon with a higher limit of the size of files (LimitFSIZE, ulimit -f).";
  }
  return wire::errno_error(ErrorCode::kOutOfMemory,
                           fmt::format("{} for {} bytes of host memory", what, size_bytes), error,
                           hint);
}

}  // namespace memlease::server
