// An array as one client has opened it: its own to close, whoever else in this process has the same
// array open. Shared by the copies of an Array and by its followers. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "client/arrays/open_array.h"

namespace memlease::internal {

class ArrayHandle {
 public:
  // Takes over one of the array's handles, which OpenArray counts. What `client` keeps lives as
  // long as this. `interrupt_check` is the client's (Session::add_interrupt_check).
  ArrayHandle(std::shared_ptr<OpenArray> array, std::shared_ptr<const void> client,
              std::uint64_t interrupt_check);
  // Calls nobody.
  ~ArrayHandle();
  ArrayHandle(const ArrayHandle&) = delete;
  ArrayHandle& operator=(const ArrayHandle&) = delete;

  OpenArray& array() const { return *array_; }
  std::uint64_t interrupt_check() const { return interrupt_check_; }

  // kClosed, or what the array says to it.
  absl::Status usable() const;
  // A read that need not wait (OpenArray::read_at_once).
  ReadAttempt read_at_once(std::uint64_t version, std::uint64_t newer_than) const {
    if (closed_.load(std::memory_order_relaxed)) return {};
    return array_->read_at_once(version, newer_than);
  }

  bool closed() const { return closed_.load() || array_->closed(); }
  // Nothing begins by this handle any more; with the last one the array is closed, which may call
  // the daemon. A repeat does nothing.
  void close();

 private:
  const std::shared_ptr<const void> client_;
  const std::shared_ptr<OpenArray> array_;
  const std::uint64_t interrupt_check_;
  std::atomic<bool> closed_{false};
};

}  // namespace memlease::internal
