// One file descriptor that several keep, and that the last of them closes. Different objects may be
// used by different threads, also where they keep the same one.
#pragma once

#include <memory>
#include <utility>

#include "wire/unique_fd.h"

namespace memlease::wire {

class SharedFd {
 public:
  SharedFd() = default;
  explicit SharedFd(UniqueFd fd) : fd_(std::make_shared<const UniqueFd>(std::move(fd))) {}

  // Negative: none. Stays open as long as this object keeps it.
  int get() const { return fd_ == nullptr ? -1 : fd_->get(); }
  explicit operator bool() const { return get() >= 0; }
  void reset() { fd_.reset(); }
  // Somebody else keeps it, too. No stays no while this one is not copied.
  bool is_shared() const { return fd_.use_count() > 1; }

 private:
  std::shared_ptr<const UniqueFd> fd_;
};

}  // namespace memlease::wire
