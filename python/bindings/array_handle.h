// Arrays and followers as Python sees them.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "python/bindings/view.h"

namespace memlease::python {

// A memlease::Array and the NumPy arrays kept for its next leases. Copies are the same handle.
class ArrayHandle {
 public:
  explicit ArrayHandle(Array array)
      : array_(std::move(array)), views_(std::make_shared<ArrayViews>(*array_)) {}
  ArrayHandle(const ArrayHandle&) = default;
  ~ArrayHandle() {
    // The last handle may wait for other threads, which may wait for the GIL.
    without_gil([this] { array_.reset(); });
  }
  ArrayHandle& operator=(const ArrayHandle&) = delete;

  const Array& operator*() const { return *array_; }
  const Array* operator->() const { return &*array_; }
  const std::shared_ptr<ArrayViews>& views() const { return views_; }

 private:
  std::optional<Array> array_;
  std::shared_ptr<ArrayViews> views_;
};

// Thread-safe under the GIL.
class PyFollower {
 public:
  PyFollower(Follower follower, std::shared_ptr<ArrayViews> views);

  py::object next();  // a PyReadLease
  void close();
  std::uint64_t skipped() const { return follower_.skipped(); }
  std::uint64_t seen() const { return follower_.seen(); }
  bool closed() const { return closed_; }

 private:
  void end_last();

  Follower follower_;
  std::shared_ptr<ArrayViews> views_;
  py::object last_;                  // the lease of the last step
  std::atomic<bool> closed_{false};  // read by the waiting thread without the GIL
  std::atomic<bool> busy_{false};    // a thread is in next()
};

}  // namespace memlease::python
