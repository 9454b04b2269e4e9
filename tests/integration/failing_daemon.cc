#include "tests/integration/failing_daemon.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <utility>

#include "tests/support/in_build.h"
#include "wire/unique_fd.h"

namespace memlease::testing {
namespace {

FailingCalls* make_plan(const std::string& path) {
  const wire::UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (::ftruncate(file.get(), sizeof(FailingCalls)) != 0) std::abort();
  void* const data =
      ::mmap(nullptr, sizeof(FailingCalls), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) std::abort();
  return new (data) FailingCalls{};
}

}  // namespace

FailingDaemon::FailingDaemon(std::vector<std::string> flags)
    : plan_(make_plan(folder_.path() + "/plan")) {
  // What this process starts later is to be as ever.
  ::setenv(kFailingCallsFile, (folder_.path() + "/plan").c_str(), 1);
  ::setenv("LD_PRELOAD", in_build("tests/libmemlease_failing_calls.so").c_str(), 1);
  daemon_ = std::make_unique<PrivateDaemon>(std::move(flags));
  ::unsetenv("LD_PRELOAD");
  ::unsetenv(kFailingCallsFile);
}

FailingDaemon::~FailingDaemon() {
  daemon_.reset();
  ::munmap(plan_, sizeof(FailingCalls));
}

void FailingDaemon::arm(KernelCall call, int error, int nth) {
  plan_->failed.store(0);
  plan_->error.store(error);
  plan_->calls_left.store(nth);
  plan_->call.store(call);
}

void FailingDaemon::disarm() { plan_->call.store(KernelCall::kNone); }

}  // namespace memlease::testing
