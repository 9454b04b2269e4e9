#include "tests/support/fakecuda/host_function.h"

#include "tests/support/fakecuda/runtime.h"
#include "tests/support/fakecuda/stream.h"

namespace fakecuda {
namespace {

class HostFunction : public Operation {
 public:
  explicit HostFunction(std::function<void()> function)
      : Operation("cudaLaunchHostFunc"), function_(std::move(function)) {}
  void run(Stream& /*stream*/) override {
    this_thread().in_host_function = true;
    function_();
    this_thread().in_host_function = false;
  }

 private:
  const std::function<void()> function_;
};

}  // namespace

cudaError_t launch_host_function(Stream& stream, std::function<void()> function) {
  return stream.enqueue(std::make_unique<HostFunction>(std::move(function)));
}

}  // namespace fakecuda
