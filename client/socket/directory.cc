#include "client/socket/directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "fmt/format.h"
#include "wire/error.h"
#include "wire/place.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;
using wire::make_error;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// As dirname(1) prints it.
std::string parent_of(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool others_may_write(const struct stat& info) { return (info.st_mode & 0022U) != 0; }

bool is_trusted(uid_t uid) { return uid == 0 || uid == ::geteuid(); }

// True if nobody but root can have put anything into `directory`.
bool only_root_writes(const std::string& directory) {
  struct stat info{};
  return ::stat(directory.c_str(), &info) == 0 && info.st_uid == 0 && !others_may_write(info);
}

}  // namespace

std::vector<std::string> candidate_directories(std::string_view named) {
  if (!named.empty()) return {std::string(named)};
  if (std::string chosen = environment("MEMLEASE_DIR"); !chosen.empty()) return {std::move(chosen)};
  return {wire::user_directory(environment("XDG_RUNTIME_DIR")), wire::kSystemDirectory};
}

bool is_address(std::string_view path) {
  if (path.starts_with('/') || path.starts_with('.')) return false;
  if (path.find("://") != path.npos) return true;
  const std::size_t colon = path.rfind(':');
  if (colon == path.npos || path.find('/') != path.npos) return false;
  const std::string_view port = path.substr(colon + 1);
  return !port.empty() && port.find_first_not_of("0123456789") == port.npos;
}

// It begins with the attach socket, and ends with taking that away.
bool is_ending(const std::string& directory) {
  const auto exists = [&](const char* name) {
    return ::access(fmt::format("{}/{}", directory, name).c_str(), F_OK) == 0;
  };
  return !exists(wire::kAttachSocket) && exists(wire::kControlSocket);
}

absl::Status check_directory(const std::string& directory) {
  std::string path = directory;
  while (path.size() > 1 && path.back() == '/') path.pop_back();  // else lstat follows a link
  struct stat link{};
  struct stat info{};
  if (::lstat(path.c_str(), &link) != 0 || ::stat(path.c_str(), &info) != 0) {
    const int error = errno;
    const bool missing = error == ENOENT || error == ENOTDIR;
    return wire::errno_error(
        missing ? ErrorCode::kDaemonUnavailable : ErrorCode::kDenied,
        fmt::format("cannot use the directory {}", directory), error,
        missing ? "No daemon has run there yet: the first connect() of a program starts "
                  "one, and so does memleased."
                : "Ask its owner for permission to search it.");
  }
  if (!S_ISDIR(info.st_mode)) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("{} is not a directory", directory),
                      "Name the directory that holds the daemon's sockets.");
  }
  if (others_may_write(info)) {
    return make_error(
        ErrorCode::kDenied,
        fmt::format("{} has mode {:04o}: its group or others may write to it, and could "
                    "put a false daemon there",
                    directory, info.st_mode & 07777U),
        "Use a directory that only its owner may write to (mode 0700 or 0755).");
  }
  const uid_t stranger = !is_trusted(info.st_uid) ? info.st_uid : link.st_uid;
  if (!is_trusted(stranger) && !only_root_writes(parent_of(path))) {
    return make_error(
        ErrorCode::kDenied,
        fmt::format("{} is owned by uid {}, neither by you (uid {}) nor by root, and "
                    "root has not vouched for it",
                    directory, stranger, ::geteuid()),
        "Use a directory of your own, or run this as its owner. A directory of another "
        "user counts only where root alone can have made it, as in /run.");
  }
  return absl::OkStatus();
}

}  // namespace memlease::internal
