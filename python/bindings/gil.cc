#include "python/bindings/gil.h"

#include <cxxabi.h>
#include <unistd.h>

namespace memlease::python {

void park_thread() noexcept {
  for (;;) ::pause();
}

GilRelease::~GilRelease() {
  try {
    PyEval_RestoreThread(state_);
  } catch (const abi::__forced_unwind&) {
    park_thread();
  }
}

GilAcquire::GilAcquire() noexcept {
  try {
    state_ = PyGILState_Ensure();
  } catch (const abi::__forced_unwind&) {
    park_thread();
  }
}

}  // namespace memlease::python
