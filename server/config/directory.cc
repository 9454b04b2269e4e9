#include "server/config/directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "wire/descriptor_limit.h"
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

std::string hint_for(int error_number) {
  if (error_number == EMFILE)
    return "No descriptor is left: " + wire::raise_descriptor_limit() + ".";
  return "The daemon's user must be able to write in its directory.";
}

// Does a process have a socket that is bound to this path? Asked with a type that none of ours has:
// the kernel looks for the socket before it compares the types. So whoever listens there hears
// nothing, and no service manager starts anything. ECONNREFUSED means that the file is all that is
// left.
bool is_bound(const std::string& path) {
  const wire::UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
             0 ||
         errno == EPROTOTYPE;
}

// The lock file holds its holder's pid. Until that is written, its holder keeps all of it locked,
// and then the first byte: what is in the file before may be of a daemon that was killed.
constexpr off_t kLockedUntilNamed = 1;

// Who connect in one instant, as the ranks of a job do, find room; and whoever fills it is worked
// off in tenths of a second at most, for which the others wait.
constexpr int kBacklog = 1'024;

struct flock lock_from(short type, off_t start) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = start;
  return lock;
}

std::string describe_holder(int lock_fd) {
  char text[32] = {};
  struct flock unnamed = lock_from(F_WRLCK, kLockedUntilNamed);
  if (::fcntl(lock_fd, F_OFD_GETLK, &unnamed) == 0 && unnamed.l_type != F_UNLCK) {
    return "a daemon that is just starting";
  }
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
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  fd_.reset(::open(path_.c_str(), kFlags));
  if (!fd_ && errno == ENOENT) {
    if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) {
      return errno_error(code_for(errno), fmt::format("cannot make the directory '{}'", path_),
                         errno,
                         "Make its parent directory, or choose another one with --directory.");
    }
    fd_.reset(::open(path_.c_str(), kFlags));
  }
  if (!fd_) {
    const int error = errno;
    struct stat found{};
    const bool seen = ::lstat(path_.c_str(), &found) == 0;
    const bool wrong_kind = seen && !S_ISDIR(found.st_mode);
    return make_error(
        ErrorCode::kDenied,
        wrong_kind ? fmt::format("'{}' is {}, not a directory.", path_, kind_of(found.st_mode))
                   : fmt::format("cannot open the directory '{}': {}.", path_, strerror(error)),
        wrong_kind ? "Give the directory itself with --directory." : hint_for(error));
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
  // Keeps systemd-tmpfiles(8) away, which removes old files from /tmp, the lock among them.
  ::flock(fd_.get(), LOCK_SH | LOCK_NB);
  changes_.reset(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  constexpr std::uint32_t kChanges =
      IN_DELETE | IN_MOVE | IN_CREATE | IN_DELETE_SELF | IN_MOVE_SELF;
  if (::inotify_add_watch(changes_.get(), path_.c_str(), kChanges) < 0) changes_.reset();
  return absl::OkStatus();
}

absl::Status Directory::take_lock() {
  for (;;) {
    constexpr int kFlags = O_RDWR | O_NOFOLLOW | O_CLOEXEC;
    wire::UniqueFd file(::openat(fd_.get(), wire::kLockFile, kFlags));
    if (!file && errno == ENOENT) {
      file.reset(::openat(fd_.get(), wire::kLockFile, kFlags | O_CREAT, 0600));
    }
    if (!file) {
      return errno_error(code_for(errno),
                         fmt::format("cannot open '{}/{}'", path_, wire::kLockFile), errno,
                         hint_for(errno));
    }
    struct flock lock = lock_from(F_WRLCK, 0);
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
    struct flock rest = lock_from(F_UNLCK, kLockedUntilNamed);
    if (::fcntl(file.get(), F_OFD_SETLK, &rest) != 0) {
      return errno_error(ErrorCode::kInternal,
                         fmt::format("cannot unlock '{}/{}'", path_, wire::kLockFile), errno);
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
  const std::string path = fmt::format("{}/{}", path_, name);
  if (S_ISSOCK(found.st_mode) && is_bound(path)) {
    return make_error(
        ErrorCode::kBusy,
        fmt::format("'{}' was not left behind by a daemon: a process has this socket open, such as "
                    "systemd for memleased.socket.",
                    path),
        "Start the daemon by its unit (systemctl start memleased.service, for a user's own with "
        "--user), or stop the unit of the sockets first, or choose another directory with "
        "--directory.");
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

absl::Status Directory::remember(const std::string& name, bool made) {
  struct stat found{};
  if (::fstatat(fd_.get(), name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno_error(ErrorCode::kInternal, fmt::format("cannot examine '{}/{}'", path_, name),
                       errno, "Something else than this daemon changes the directory.");
  }
  entries_.push_back({name, found.st_dev, found.st_ino, made});
  return absl::OkStatus();
}

// By its address alone: what a unit calls it may be the same for both.
absl::StatusOr<std::string> Directory::name_of(const PassedSocket& socket) const {
  const auto wrong = [&](std::string_view what) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("the passed socket '{}' (descriptor {}) {}", socket.name,
                                  socket.fd.get(), what),
                      fmt::format("The unit of sockets has ListenSequentialPacket={0}/{1} and "
                                  "ListenStream={0}/{2}, and nothing else.",
                                  path_, wire::kAttachSocket, wire::kControlSocket));
  };
  const auto option = [&socket](int name) {
    int value = -1;
    socklen_t bytes = sizeof value;
    const int failed = ::getsockopt(socket.fd.get(), SOL_SOCKET, name, &value, &bytes);
    return failed == 0 ? value : -1;
  };
  if (option(SO_DOMAIN) != AF_UNIX) return wrong("is not a UNIX socket");
  sockaddr_un address{};
  socklen_t bytes = sizeof address - 1;  // so that its path ends in it
  if (::getsockname(socket.fd.get(), reinterpret_cast<sockaddr*>(&address), &bytes) != 0 ||
      address.sun_path[0] != '/') {
    return wrong("has no path in the file system");
  }
  const std::string path = address.sun_path;
  const std::size_t slash = path.rfind('/');
  std::string name = path.substr(slash + 1);
  if (name != wire::kAttachSocket && name != wire::kControlSocket) {
    return wrong(fmt::format("is '{}', which this daemon does not use", path));
  }
  struct stat named{};
  struct stat here{};
  if (::fstat(fd_.get(), &here) != 0 || ::stat(path.substr(0, slash + 1).c_str(), &named) != 0 ||
      here.st_dev != named.st_dev || here.st_ino != named.st_ino) {
    return wrong(fmt::format("is '{}', but the daemon's directory is '{}'", path, path_));
  }
  const bool is_attach = name == wire::kAttachSocket;
  if (option(SO_TYPE) != (is_attach ? SOCK_SEQPACKET : SOCK_STREAM)) {
    return wrong(fmt::format("is '{}', and not of type {}", path,
                             is_attach ? "SOCK_SEQPACKET" : "SOCK_STREAM"));
  }
  if (option(SO_ACCEPTCONN) != 1) return wrong(fmt::format("is '{}', and does not listen", path));
  return name;
}

absl::Status Directory::use(std::vector<PassedSocket>& sockets) {
  std::map<std::string, PassedSocket*> named;
  sockets_passed_ = !sockets.empty();
  for (PassedSocket& socket : sockets) {
    auto name = name_of(socket);
    if (!name.ok()) return name.status();
    struct stat found{};
    if (::fstatat(fd_.get(), name->c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISSOCK(found.st_mode)) {
      return make_error(
          ErrorCode::kInvalidArgument,
          fmt::format("the socket '{}/{}' was passed, but that file is gone: nobody can connect",
                      path_, *name),
          "Restart the unit of the sockets, which makes them again.");
    }
    if (auto status = remember(*name, false); !status.ok()) return status;
    if (!named.emplace(*name, &socket).second) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("two sockets were passed for '{}/{}'", path_, *name),
                        "Let one unit of sockets name each of them once.");
    }
  }
  if (named.size() == 1) {
    const bool has_attach = named.contains(wire::kAttachSocket);
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("of the daemon's two sockets only '{}/{}' was passed", path_,
                                  has_attach ? wire::kAttachSocket : wire::kControlSocket),
                      fmt::format("Let the unit of sockets have Listen{}={}/{} too.",
                                  has_attach ? "Stream" : "SequentialPacket", path_,
                                  has_attach ? wire::kControlSocket : wire::kAttachSocket));
  }
  for (const auto& [name, socket] : named) passed_[name] = std::move(socket->fd);
  // To create and to remove something waits for who does that, too, perhaps in vain, and is kept
  // from a processor: as long as he likes. Where all else is there already nothing need be made.
  for (Entry& entry : entries_) entry.made = entry.made && !sockets_passed_;
  return absl::OkStatus();
}

absl::StatusOr<wire::UniqueFd> Directory::listen(const std::string& name, int type, mode_t mode) {
  if (auto passed = passed_.extract(name)) {
    if (::fcntl(passed.mapped().get(), F_SETFL, O_RDWR | O_NONBLOCK) == 0) {
      return std::move(passed.mapped());
    }
    return errno_error(ErrorCode::kInternal, fmt::format("O_NONBLOCK on '{}/{}'", path_, name),
                       errno);
  }
  if (auto status = remove_stale(name); !status.ok()) return status;
  const auto path = wire::socket_path(path_, name);
  if (!path.ok()) return path.status();
  const auto failure = [&path](const char* what) {
    return errno_error(code_for(errno), fmt::format("cannot {} '{}'", what, *path), errno,
                       hint_for(errno));
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
  if (::listen(socket.get(), kBacklog) != 0) return failure("listen on");
  return socket;
}

bool Directory::is_there(const Entry& entry) const {
  struct stat now{};
  return ::fstatat(fd_.get(), entry.name.c_str(), &now, AT_SYMLINK_NOFOLLOW) == 0 &&
         now.st_dev == entry.device && now.st_ino == entry.inode;
}

std::vector<std::string> Directory::lost() {
  alignas(inotify_event) char events[4096];
  while (::read(changes_.get(), events, sizeof events) > 0) {
  }
  struct stat here{};
  struct stat named{};
  if (::fstat(fd_.get(), &here) != 0 || ::lstat(path_.c_str(), &named) != 0 ||
      here.st_dev != named.st_dev || here.st_ino != named.st_ino) {
    return {path_};
  }
  std::vector<std::string> paths;
  for (const Entry& entry : entries_) {
    if (!is_there(entry)) paths.push_back(fmt::format("{}/{}", path_, entry.name));
  }
  return paths;
}

Directory::~Directory() {
  // The lock file, which was first, goes last: until then no other daemon starts here.
  while (!entries_.empty()) {
    remove(entries_.back());
    entries_.pop_back();
  }
}

void Directory::remove(const std::string& name) {
  const auto ours = std::ranges::find(entries_, name, &Entry::name);
  if (ours == entries_.end() || !ours->made) return;
  remove(*ours);
  entries_.erase(ours);
}

void Directory::remove(const Entry& entry) {
  if (entry.made && is_there(entry)) ::unlinkat(fd_.get(), entry.name.c_str(), 0);
}

}  // namespace memlease::server
