#include "server/telemetry/log_sink.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iterator>
#include <utility>

#include "fmt/format.h"
#include "wire/unique_fd.h"

namespace memlease::server {
namespace {

// The device of `fd` once more. A terminal may be another user's, as under su(1): this process's
// own one opens by another name.
wire::UniqueFd open_without_wait(int fd) {
  constexpr int kFlags = O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  wire::UniqueFd own(::open(fmt::format("/proc/self/fd/{}", fd).c_str(), kFlags));
  if (!own && errno == EACCES && ::tcgetsid(fd) == ::getsid(0)) {
    own.reset(::open("/dev/tty", kFlags));
  }
  return own;
}

ssize_t write_again_if_interrupted(int fd, std::string_view text) {
  ssize_t written = -1;
  do {
    written = ::write(fd, text.data(), text.size());
  } while (written < 0 && errno == EINTR);
  return written;
}

// Why there is no room for the rest shows when that is written, too.
ssize_t write_to_file(int fd, std::string_view text) {
  const ssize_t written = write_again_if_interrupted(fd, text);
  if (written < 0 || written == std::ssize(text)) return written;
  const ssize_t rest =
      write_again_if_interrupted(fd, text.substr(static_cast<std::size_t>(written)));
  return written + std::max<ssize_t>(rest, 0);
}

ssize_t write_without_wait(int fd, mode_t mode, std::string_view text) {
  if (S_ISSOCK(mode)) return ::send(fd, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (!S_ISCHR(mode)) return write_again_if_interrupted(fd, text);
  const wire::UniqueFd own = open_without_wait(fd);
  return own ? write_again_if_interrupted(own.get(), text) : -1;
}

// Another daemon's, say, in a directory that has come in the place of ours.
bool another_has(const std::string& path, int fd) {
  struct stat named{};
  struct stat own{};
  return ::lstat(path.c_str(), &named) == 0 && ::fstat(fd, &own) == 0 &&
         (named.st_ino != own.st_ino || named.st_dev != own.st_dev);
}

}  // namespace

void LogSink::bound(const std::string& path, std::uint64_t max_bytes) {
  struct stat file{};
  if (::fstat(fd_, &file) != 0) return;
  path_ = path;
  max_bytes_ = max_bytes;
  size_bytes_ = static_cast<std::uint64_t>(file.st_size);
}

void LogSink::reopen() {
  struct stat named{};
  if (path_.empty() || ::lstat(path_.c_str(), &named) == 0 || errno != ENOENT) return;
  if (take_new_file()) size_bytes_ = 0;
}

bool LogSink::has_room() const {
  pollfd entry{fd_, POLLOUT, 0};
  return ::poll(&entry, 1, 0) == 1 && (entry.revents & POLLOUT) != 0;
}

void LogSink::write(std::string line) {
  constexpr std::string_view kEnd = "...\n";
  if (line.size() > kMostBytes) line.replace(kMostBytes - kEnd.size(), line.npos, kEnd);
  if (torn_) line.insert(0, kEnd);
  const ssize_t written = write_what_fits(line);
  if (written < std::ssize(line)) dropped_ = {dropped_.lines + 1, errno};
  if (written < 0) return;
  torn_ = written < std::ssize(line);
  size_bytes_ += static_cast<std::uint64_t>(written);
  if (!path_.empty() && size_bytes_ >= max_bytes_) begin_new_file();
}

// Where poll(2) says that a terminal has room, it has some: write(2) would wait for the rest. The
// flag O_NONBLOCK is not for this descriptor, which others have, too, but for one of our own of the
// same file. Made anew for each line: what the number stands for changes as a daemon goes to the
// background.
ssize_t LogSink::write_what_fits(std::string_view text) const {
  struct stat file{};
  if (::fstat(fd_, &file) == 0 && S_ISREG(file.st_mode)) return write_to_file(fd_, text);
  const ssize_t written = has_room() ? write_without_wait(fd_, file.st_mode, text) : -1;
  errno = 0;
  return written;
}

LogSink::Dropped LogSink::take_dropped() { return std::exchange(dropped_, {}); }

void LogSink::told_of(const Dropped& dropped) {
  if (dropped_.lines > 0) dropped_.lines += dropped.lines - 1;
}

// Where no file can be made, the lines go on in the one that has been moved, and where it cannot be
// moved, as its new name is a directory's or its own one another file's, they begin anew in it:
// none grows without a bound.
void LogSink::begin_new_file() {
  size_bytes_ = 0;
  const bool another = another_has(path_, fd_);
  const bool moved = !another && ::rename(path_.c_str(), (path_ + ".1").c_str()) == 0;
  // The old name may be free: a former try came so far.
  const bool is_free = moved || (!another && errno == ENOENT);
  if (!(is_free && take_new_file()) && !moved && ::ftruncate(fd_, 0) != 0) {
    path_.clear();  // it is no file that grows
  }
}

bool LogSink::take_new_file() {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC;
  const wire::UniqueFd file(::open(path_.c_str(), kFlags, 0600));
  return file && ::dup2(file.get(), fd_) >= 0;
}

}  // namespace memlease::server
