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
  ArrayViews& views() const { return *views_; }

  // Under the GIL, which it gives up where it has to wait or to call the daemon.
  ReadLease read(const ReadOptions& options);

 private:
  std::optional<Array> array_;
  std::shared_ptr<ArrayViews> views_;
  bool has_read_ = false;
};

// The handle inside of an instance of Array.
ArrayHandle& handle_of(py::handle array);

// Array.read, write and update.
void bind_lease_calls(py::class_<ArrayHandle>& type);

// Thread-safe under the GIL.
class PyFollower {
 public:
  // `stream` is what the caller gave as one: each lease keeps it alive.
  PyFollower(Follower follower, py::object array, py::object stream);

  py::object next();  // a ReadLease
  void close();
  std::uint64_t skipped() const { return follower_.skipped(); }
  std::uint64_t seen() const { return follower_.seen(); }
  bool closed() const { return closed_; }

 private:
  void end_last();

  py::object array_;
  py::object stream_;
  Follower follower_;
  py::object last_;                  // the lease of the last step
  std::atomic<bool> closed_{false};  // read by the waiting thread without the GIL
  std::atomic<bool> busy_{false};    // a thread is in next()
};

}  // namespace memlease::python
