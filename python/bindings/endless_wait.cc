#include "python/bindings/endless_wait.h"

#include "python/bindings/package_parts.h"

namespace memlease::python {
namespace {

using Clock = std::chrono::steady_clock;

thread_local EndlessWait* innermost = nullptr;

}  // namespace

EndlessWait::EndlessWait(const std::string& name, const Timeout& timeout)
    : name_(name), around_(innermost) {
  innermost = timeout.from_now().value_or(kForever) == kForever ? this : nullptr;
}

EndlessWait::~EndlessWait() { innermost = around_; }

void EndlessWait::look() {
  EndlessWait* const wait = innermost;
  if (wait == nullptr) return;
  const auto now = Clock::now();
  if (!wait->since_) wait->since_ = now;
  const py::object& notes = package_parts().long_waits;
  const std::chrono::duration<double> after(notes.attr("after_s").cast<double>());
  if (now - *wait->since_ >= after) notes.attr("note")(wait->name_);
}

}  // namespace memlease::python
