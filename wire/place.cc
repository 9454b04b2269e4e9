#include "wire/place.h"

#include <sys/un.h>
#include <unistd.h>

#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::wire {

std::string user_directory(std::string_view runtime_directory) {
  if (runtime_directory.starts_with('/')) return fmt::format("{}/memlease", runtime_directory);
  return fmt::format("/tmp/memlease-{}", ::geteuid());
}

std::size_t max_socket_path_bytes() { return sizeof(sockaddr_un::sun_path) - 1; }

absl::StatusOr<std::string> socket_path(std::string_view directory, std::string_view name) {
  std::string path = fmt::format("{}/{}", directory, name);
  if (path.size() <= max_socket_path_bytes()) return path;
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("the path '{}' has {} bytes, and a socket's path can have {}.",
                                path, path.size(), max_socket_path_bytes()),
                    fmt::format("Choose a directory with a path of at most {} bytes.",
                                max_socket_path_bytes() - name.size() - 1));
}

}  // namespace memlease::wire
