// A descriptor that lives as long as a session. The program may have closed it, as daemonisers and
// os.closerange() do, and opened another file, which has its number then: that one is neither used
// nor closed. Two openings of one file look alike, and need not be told apart: no program opens
// what is kept by one of these, as a segment has no name and a socket's file is of no use. Only
// memlease itself does, where it connects again after the program has closed all, and may get the
// same number: that leads either one where it wants. The first of the two that ends closes it, and
// the other one has none then, as after the program. Thread-safe, but for changes of one.
#pragma once

#include <sys/stat.h>

#include <utility>

#include "wire/unique_fd.h"

namespace memlease::wire {

// Which file a descriptor is open for. Not for those without an inode of their own, such as an
// eventfd. Async-signal-safe.
struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;  // 0: it is not open

  static FileIdentity of(int fd) {
    struct stat info{};
    return ::fstat(fd, &info) == 0 ? FileIdentity{info.st_dev, info.st_ino} : FileIdentity{};
  }
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

class OwnFd {
 public:
  OwnFd() = default;
  explicit OwnFd(UniqueFd fd) : fd_(std::move(fd)), file_(FileIdentity::of(fd_.get())) {}
  OwnFd(OwnFd&&) noexcept = default;
  OwnFd& operator=(OwnFd&& other) noexcept {
    reset();
    fd_ = std::move(other.fd_);
    file_ = other.file_;
    return *this;
  }
  ~OwnFd() { reset(); }

  // -1 where there is none, or the program has closed it.
  int get() const { return fd_ && FileIdentity::of(fd_.get()) == file_ ? fd_.get() : -1; }
  // Async-signal-safe.
  void reset() {
    if (get() < 0) fd_.release();
    fd_.reset();
  }

 private:
  UniqueFd fd_;
  FileIdentity file_;
};

}  // namespace memlease::wire
