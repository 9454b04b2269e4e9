// Giving the GIL up and taking it (again), also in threads that the interpreter's end overtakes.
// Until Python 3.13 such a thread is ended by an unwinding that no destructor and no catch (...)
// may stop, and that would end the process; here it sleeps until the process has gone, as later
// Pythons let it.
#pragma once

#include <Python.h>

namespace memlease::python {

// Sleeps for as long as the process lives.
[[noreturn]] void park_thread() noexcept;

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
  PyGILState_STATE state_;
};

}  // namespace memlease::python
