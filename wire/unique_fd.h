// A file descriptor that is closed with its owner, or none. Not thread-safe. Closing
// reports no error, and no thread is cancelled in it.
#pragma once

#include <unistd.h>

#include <utility>

#include "wire/not_cancelled.h"

namespace memlease::wire {

class UniqueFd {
 public:
  UniqueFd() = default;
  // Owns it from now on. A negative number, as a failed open() returns it: none.
  explicit UniqueFd(int fd) : fd_(fd) {}
  // `other` has none afterwards.
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  // Negative: none. Stays this object's.
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  // Gives it to the caller, who closes it.
  int release() { return std::exchange(fd_, -1); }
  // Closes what it has, and owns `fd` from now on, which is not the same one.
  void reset(int fd = -1) {
    const NotCancelled whole;  // in a destructor that would end the process
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace memlease::wire
