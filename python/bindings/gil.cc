#include "python/bindings/gil.h"

#include <unistd.h>

namespace memlease::python {

void park_thread() noexcept {
  for (;;) ::pause();
}

// What comes here is the unwinding by which Python ends a thread, since nothing in it throws.
GilRelease::~GilRelease() {
  try {
    PyEval_RestoreThread(state_);
  } catch (...) {
    park_thread();
  }
}

GilAcquire::GilAcquire() noexcept {
  try {
    state_ = PyGILState_Ensure();
  } catch (...) {
    park_thread();
  }
}

}  // namespace memlease::python
