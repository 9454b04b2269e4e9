#include "server/config/directory.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "wire/error.h"
#include "wire/place.h"

namespace memlease::server {
namespace {

using wire::errno_error;
using wire::ErrorCode;
using wire::make_error;

std::string_view kind_of(mode_t mode) {
  if (S_ISLNK(mode)) return "a symbolic link";
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISREG(mode)) return "a file";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device or pipe";
}

ErrorCode code_for(int error_number) {
  const bool denied = error_number == EACCES || error_number == EPERM || error_number == EROFS;
  return denied ? ErrorCode::kDenied : ErrorCode::kInternal;
}

// The lock file holds its holder's pid.
std::string describe_holder(int lock_fd) {
  char text[32] = {};
  const ssize_t size = ::pread(lock_fd, text, sizeof text - 1, 0);
  const long pid = size > 0 ? std::strtol(text, nullptr, 10) : 0;
  if (pid <= 0) return "a daemon that is just starting";
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string command;
  std::getline(file, command);
  return fmt::format("pid {} ({})", pid, command.empty() ? "in another pid namespace" : command);
}

}  // namespace

absl::StatusOr<Directory> Directory::lock(const std::string& path) {
  // The longest name decides.
  if (auto longest = wire::socket_path(path, wire::kControlSocket); !longest.ok()) {
    return longest.status();
  }
  Directory directory(path);
  if (auto status = directory.open(); !status.ok()) return status;
  if (auto status = directory.take_lock(); !status.ok()) return status;
  return directory;
}

absl::Status Directory::open() {
  if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) {
    return errno_error(code_for(errno), fmt::format("cannot make the directory '{}'", path_), errno,
                       "Make its parent directory, or choose another one with --directory.");
  }
  fd_.reset(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd_) {
    const int error = errno;
    struct stat found{};
    const bool seen = ::lstat(path_.c_str(), &found) == 0;
    const bool wrong_kind = seen && !S_ISDIR(found.st_mode);
    return make_error(
        ErrorCode::kDenied,
        wrong_kind ? fmt::format("'{}' is {}, not a directory.", path_, kind_of(found.st_mode))
                   : fmt::format("cannot open the directory '{}': {}.", path_, strerror(error)),
        "Give the directory itself with --directory.");
  }
  struct stat status{};
  if (::fstat(fd_.get(), &status) != 0) {
    return errno_error(ErrorCode::kInternal, fmt::format("cannot examine '{}'", path_), errno);
  }
  if (status.st_uid != ::geteuid() && status.st_uid != 0) {
    return make_error(
        ErrorCode::kDenied,
        fmt::format("the directory '{}' belongs to uid {}, and this daemon runs as uid "
                    "{}: its owner could replace the sockets.",
                    path_, status.st_uid, ::geteuid()),
        "Choose another directory with --directory, or have it removed.");
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return make_error(ErrorCode::kDenied,
                      fmt::format("the directory '{}' has mode {:04o}: others than its owner could "
                                  "replace the sockets.",
                                  path_, status.st_mode & 07777),
                      fmt::format("Run: chmod go-w '{}'", path_));
  }
  return absl::OkStatus();
}

absl::Status Directory::take_lock() {
  for (;;) {
    wire::UniqueFd file(
        ::openat(fd_.get(), wire::kLockFile, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file) {
      return errno_error(code_for(errno),
                         fmt::format("cannot open '{}/{}'", path_, wire::kLockFile), errno,
                         "The daemon's user must be able to write in its directory.");
    }
    struct flock lock{};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    if (::fcntl(file.get(), F_OFD_SETLK, &lock) != 0) {
      if (errno != EAGAIN && errno != EACCES) {
        return errno_error(ErrorCode::kInternal,
                           fmt::format("cannot lock '{}/{}'", path_, wire::kLockFile), errno,
                           "The directory must be on a file system with locks.");
      }
      return make_error(ErrorCode::kBusy,
                        fmt::format("the directory '{}' is already served by {}.", path_,
                                    describe_holder(file.get())),
                        "Use that daemon, stop it, or choose another directory with --directory.");
    }
    // A daemon that ends removes its lock file: what we have locked may have no name any more.
    struct stat locked{};
    struct stat named{};
    const bool have_locked = ::fstat(file.get(), &locked) == 0;
    const bool have_named = ::fstatat(fd_.get(), wire::kLockFile, &named, AT_SYMLINK_NOFOLLOW) == 0;
    if (!have_locked || !have_named || locked.st_dev != named.st_dev ||
        locked.st_ino != named.st_ino) {
      continue;
    }
    const std::string pid = fmt::format("{}\n", ::getpid());
    if (::ftruncate(file.get(), 0) != 0 ||
        ::pwrite(file.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
      return errno_error(ErrorCode::kInternal,
                         fmt::format("cannot write '{}/{}'", path_, wire::kLockFile), errno);
    }
    lock_ = std::move(file);
    return remember(wire::kLockFile);
  }
}

// We hold the lock and nobody else may change the directory, so nothing can come between the look
// and the removal.
absl::Status Directory::remove_stale(const std::string& name) {
  struct stat found{};
  if (::fstatat(fd_.get(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return errno_error(code_for(errno), fmt::format("cannot examine '{}/{}'", path_, name), errno);
  }
  if (!S_ISSOCK(found.st_mode) || found.st_uid != ::geteuid()) {
    return make_error(
        ErrorCode::kDenied,
        fmt::format("'{}/{}' is {} of uid {}, not a socket that a daemon of uid {} has "
                    "left behind.",
                    path_, name, kind_of(found.st_mode), found.st_uid, ::geteuid()),
        "Find out who made it, then remove it.");
  }
  if (::unlinkat(fd_.get(), name.c_str(), 0) != 0) {
    return errno_error(code_for(errno), fmt::format("cannot remove '{}/{}'", path_, name), errno);
  }
  return absl::OkStatus();
}

absl::Status Directory::remember(const std::string& name) {
  struct stat made{};
  if (::fstatat(fd_.get(), name.c_str(), &made, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno_error(ErrorCode::kInternal, fmt::format("cannot examine '{}/{}'", path_, name),
                       errno, "Something else than this daemon changes the directory.");
  }
  entries_.push_back({name, made.st_dev, made.st_ino});
  return absl::OkStatus();
}

absl::StatusOr<wire::UniqueFd> Directory::listen(const std::string& name, int type, mode_t mode) {
  if (auto status = remove_stale(name); !status.ok()) return status;
  const auto path = wire::socket_path(path_, name);
  if (!path.ok()) return path.status();
  const auto failure = [&path](const char* what) {
    return errno_error(code_for(errno), fmt::format("cannot {} '{}'", what, *path), errno,
                       "The daemon's user must be able to write in its directory.");
  };
  wire::UniqueFd socket(::socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return failure("make a socket for");
  // bind() gives the file the socket's own mode, less the umask; chmod then gives back what the
  // umask took. Nobody can connect before listen().
  if (::fchmod(socket.get(), mode) != 0) return failure("set the mode of");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path->copy(address.sun_path, path->size());
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return failure("bind");
  }
  if (auto status = remember(name); !status.ok()) return status;
  if (::fchmodat(fd_.get(), name.c_str(), mode, 0) != 0) return failure("set the mode of");
  if (::listen(socket.get(), SOMAXCONN) != 0) return failure("listen on");
  return socket;
}

Directory::~Directory() {
  // The lock file, which was first, goes last: until then no other daemon starts here.
  while (!entries_.empty()) {
    const Entry entry = std::move(entries_.back());
    entries_.pop_back();
    struct stat now{};
    if (::fstatat(fd_.get(), entry.name.c_str(), &now, AT_SYMLINK_NOFOLLOW) == 0 &&
        now.st_dev == entry.device && now.st_ino == entry.inode) {
      ::unlinkat(fd_.get(), entry.name.c_str(), 0);
    }
  }
}

}  // namespace memlease::server
