// Giving the GIL up and taking it (again), also in threads that the interpreter's end overtakes.
// Until Python 3.13 such a thread is ended by an unwinding that no destructor and no catch (...)
// may stop, and that would end the process; here it sleeps until the process has gone, as later
// Pythons let it.
#pragma once

#include <Python.h>

#include <exception>
#include <utility>

namespace memlease::python {

// Sleeps for as long as the process lives.
[[noreturn]] void park_thread() noexcept;

// The result of `body`, or its exception; sleeps where that unwinding comes through. It is told by
// what it is not, an exception of C++: a handler for abi::__forced_unwind& would bind a null
// reference.
template <typename Body>
decltype(auto) unless_ended(Body&& body) {
  try {
    return std::forward<Body>(body)();
  } catch (...) {
    if (std::current_exception() == nullptr) park_thread();
    throw;
  }
}

// While one lives, this thread, which has the GIL before and after, is without it.
class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease();
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* const state_;
};

// While one lives, this thread, any one, has the GIL.
class GilAcquire {
 public:
  GilAcquire() noexcept;
  ~GilAcquire() { PyGILState_Release(state_); }
  GilAcquire(const GilAcquire&) = delete;
  GilAcquire& operator=(const GilAcquire&) = delete;

 private:
  const PyGILState_STATE state_;
};

}  // namespace memlease::python
