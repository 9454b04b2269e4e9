#include "server/device/open_file_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "fmt/format.h"

namespace memlease::server {

OpenFileWatch::OpenFileWatch() : inotify_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {}

int OpenFileWatch::begin(int fd) {
  const auto path = fmt::format("/proc/self/fd/{}", fd);
  const wire::MutexLock lock(mutex_);
  read_news();  // of an earlier one of this file
  const int watch = inotify_add_watch(inotify_.get(), path.c_str(), IN_CLOSE_WRITE);
  if (watch >= 0) has_gone_[watch] = false;
  return watch;
}

std::optional<bool> OpenFileWatch::has_gone(int watch) {
  const wire::MutexLock lock(mutex_);
  read_news();
  const auto found = has_gone_.find(watch);
  return found == has_gone_.end() ? std::nullopt : found->second;
}

void OpenFileWatch::end(int watch) {
  const wire::MutexLock lock(mutex_);
  if (has_gone_.erase(watch) == 0) return;
  (void)inotify_rm_watch(inotify_.get(), watch);
  read_news();  // of its end
}

void OpenFileWatch::read_news() {
  std::array<std::byte, 4096> news;
  for (;;) {
    const ssize_t size = read(inotify_.get(), news.data(), news.size());
    if (size == -1 && errno == EINTR) continue;
    if (size <= 0) return;
    for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
      inotify_event event;
      std::memcpy(&event, news.data() + at, sizeof event);
      at += sizeof event + event.len;
      if ((event.mask & IN_Q_OVERFLOW) != 0) {
        for (auto& [watch, has_gone] : has_gone_) {
          if (has_gone == false) has_gone.reset();
        }
      }
      const auto found = has_gone_.find(event.wd);
      if (found != has_gone_.end() && (event.mask & IN_CLOSE_WRITE) != 0) found->second = true;
    }
  }
}

}  // namespace memlease::server
