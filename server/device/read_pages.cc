#include "server/device/read_pages.h"

#include <sys/stat.h>

#include <algorithm>

namespace memlease::server {

void ReadPages::add(int fd, std::uint64_t size_bytes) {
  const wire::MutexLock lock(mutex_);
  files_[fd] = size_bytes;
  size_bytes_ += size_bytes;
}

void ReadPages::remove(int fd) {
  const wire::MutexLock lock(mutex_);
  const auto file = files_.find(fd);
  size_bytes_ -= file->second;
  files_.erase(file);
}

std::uint64_t ReadPages::size_bytes() const {
  const wire::MutexLock lock(mutex_);
  return size_bytes_;
}

std::uint64_t ReadPages::missing_bytes() const {
  constexpr std::uint64_t kBlockBytes = 512;
  const wire::MutexLock lock(mutex_);
  std::uint64_t missing = 0;
  for (const auto& [fd, size_bytes] : files_) {
    struct stat status{};
    if (::fstat(fd, &status) != 0) continue;
    const std::uint64_t there = static_cast<std::uint64_t>(status.st_blocks) * kBlockBytes;
    missing += size_bytes - std::min(size_bytes, there);
  }
  return missing;
}

}  // namespace memlease::server
