// Arrays and followers as Python sees them.
#pragma once

#include <memlease/for_bindings.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "python/bindings/view.h"

namespace memlease::python {

// What finds an array again: handles are pickled by it.
struct Reference {
  std::string directory;
  std::string name;
  std::uint64_t id = 0;
  std::string device;
};

// A memlease::Array and the NumPy arrays kept for its next leases. Copies are the same handle.
// Under the GIL, which it gives up where it has to wait or to call the daemon.
class ArrayHandle {
 public:
  explicit ArrayHandle(Array array)
      : array_(std::move(array)), views_(std::make_shared<ArrayViews>(*array_)) {}
  // Of an array that could not be opened when it was unpickled: its first use calls `open`, which
  // returns an Array of Python or raises.
  ArrayHandle(Reference reference, py::object open)
      : reference_(std::move(reference)), open_(std::move(open)) {}
  ArrayHandle(const ArrayHandle&) = default;
  ~ArrayHandle() {
    // The last handle may wait for other threads, which may wait for the GIL.
    without_gil([this] { array_.reset(); });
  }
  ArrayHandle& operator=(const ArrayHandle&) = delete;

  const Array& operator*() const { return opened(); }
  const Array* operator->() const { return &opened(); }
  ArrayViews& views() const { return opened(), *views_; }

  // Of a region, as to_region() takes it; null for null. InvalidArgument if it does not fit.
  std::shared_ptr<ArrayViews> region_views(PyObject* region) const;

  Reference reference() const;  // does not open it
  bool closed() const { return array_ ? array_->closed() : !open_; }
  void close();
  ReadLease read(const ReadOptions& options);
  std::optional<ReadLease> try_read(const ReadOptions& options);
  std::uint64_t version() const;
  bool has_writer() const;
  // The newest version that this handle has read, by a lease or a copy; 0: none.
  std::uint64_t last_read() const { return last_read_; }
  void note_read(std::uint64_t version) { last_read_ = std::max(last_read_, version); }

 private:
  const Array& opened() const {
    if (!array_) open_now();
    return *array_;
  }
  void open_now() const;

  mutable std::optional<Array> array_;
  mutable std::shared_ptr<ArrayViews> views_;
  Reference reference_;      // while there is no array
  mutable py::object open_;  // null: closed, or opened
  std::uint64_t last_read_ = 0;
};

// What a call of an array returns, without the GIL. It is made once more if it was refused because
// this process holds too much, or is writing: what is held may be garbage in a cycle, as an
// exception, its traceback and the frame that keeps it in a name make one.
template <typename Call>
auto without_gil_or_garbage(Call&& call) {
  try {
    return without_gil(call);
  } catch (const Error& error) {
    const bool by_us = error.code() == ErrorCode::TooManyHeld || error.code() == ErrorCode::Busy;
    if (!by_us || PyGC_Collect() == 0) throw;
  }
  return without_gil(call);
}

// A call that begins a write, without the GIL. A ViewAlive warning follows if it had to wait for
// what this process itself holds; an error of the call's own comes first.
template <typename Call>
auto writing(const Array& array, Call&& call) {
  try {
    auto result = without_gil_or_garbage(call);
    if (internal::ForBindings::should_warn_of_views(array)) {
      warn_of_views(array.name(), true);
    }
    return result;
  } catch (const Error&) {
    if (internal::ForBindings::should_warn_of_views(array)) {
      warn_of_views(array.name(), false);
    }
    throw;
  }
}

// The handle inside of an instance of Array.
ArrayHandle& handle_of(py::handle array);

// Array.read, write, update, try_read and try_write.
void bind_lease_calls(py::class_<ArrayHandle>& type);
// Array.put and get.
void bind_copies(py::class_<ArrayHandle>& type);

// Thread-safe under the GIL.
class PyFollower {
 public:
  // `stream` is what the caller gave as one: each lease keeps it alive. `region`: as of a PyLease.
  PyFollower(Follower follower, py::object array, const Timeout& timeout, py::object stream,
             std::shared_ptr<ArrayViews> region);

  py::object next();  // a ReadLease
  int fileno();
  void close();
  const py::object& array() const { return array_; }
  std::uint64_t last() const { return follower_.last(); }
  std::uint64_t skipped() const { return follower_.skipped(); }
  std::uint64_t seen() const { return follower_.seen(); }
  bool closed() const { return follower_.closed(); }
  const Follower& follower() const { return follower_; }
  std::string repr() const;

  // The parts of a step that waits in an event loop (memlease/asynchronous.py). Begin: Busy where
  // another thread or task has begun one; the last lease ends.
  void begin_step();
  // A ReadLease; None: there is no version now, or it is closed. `keep`: until the next step.
  py::object try_next(bool keep);
  // The same, and waits for so long, in a thread that is not the loop's: Timeout. Ends with None
  // by stop_waiting() in another one.
  py::object next_within(bool keep, double timeout_s);
  void stop_waiting() { stop_.request(); }
  void end_step();
  // Closes it, and its descriptor at once.
  void dispose();
  std::optional<double> timeout() const;  // of each step, in seconds

 private:
  template <typename Begin>
  py::object lease(Begin&& begin);
  template <typename Take>
  py::object taken(bool keep, Take&& take);
  void end_last();

  py::object array_;
  py::object stream_;
  const std::shared_ptr<ArrayViews> region_;  // null: all of the array
  const Timeout timeout_;
  Follower follower_;
  py::object last_;  // the lease of the last step
  // A thread or task of the process of this fork_number() is in a step.
  std::atomic<std::uint32_t> busy_in_{0};
  internal::Stop stop_;
};

}  // namespace memlease::python
