#include "python/bindings/gil.h"

#include <unistd.h>

namespace memlease::python {

void park_thread() noexcept {
  for (;;) ::pause();
}

GilRelease::~GilRelease() {
  unless_ended([&] { PyEval_RestoreThread(state_); });
}

GilAcquire::GilAcquire() noexcept : state_(unless_ended(PyGILState_Ensure)) {}

}  // namespace memlease::python
