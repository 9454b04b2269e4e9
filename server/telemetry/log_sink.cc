#include "server/telemetry/log_sink.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "wire/unique_fd.h"

namespace memlease::server {

void LogSink::bound(const std::string& path, std::uint64_t max_bytes) {
  struct stat file{};
  if (::fstat(fd_, &file) != 0) return;
  path_ = path;
  max_bytes_ = max_bytes;
  size_bytes_ = static_cast<std::uint64_t>(file.st_size);
}

bool LogSink::has_room() const {
  pollfd entry{fd_, POLLOUT, 0};
  return ::poll(&entry, 1, 0) == 1 && (entry.revents & POLLOUT) != 0;
}

void LogSink::write(std::string line) {
  constexpr std::string_view kEnd = "...\n";
  if (line.size() > kMostBytes) line.replace(kMostBytes - kEnd.size(), line.npos, kEnd);
  ssize_t written = -1;
  if (has_room()) {
    do {
      written = ::write(fd_, line.data(), line.size());
    } while (written < 0 && errno == EINTR);
  }
  if (written < 0) {
    ++dropped_;
    return;
  }
  size_bytes_ += static_cast<std::uint64_t>(written);
  if (!path_.empty() && size_bytes_ >= max_bytes_) begin_new_file();
}

std::uint64_t LogSink::take_dropped() { return std::exchange(dropped_, 0); }

// If it fails, the old file grows by as much again before the next try.
void LogSink::begin_new_file() {
  size_bytes_ = 0;
  // The old name may be free: a former try came so far.
  if (::rename(path_.c_str(), (path_ + ".1").c_str()) != 0 && errno != ENOENT) return;
  const wire::UniqueFd file(
      ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file) ::dup2(file.get(), fd_);
}

}  // namespace memlease::server
