#include "server/memory_relief.h"

namespace memlease::server {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kStep{50};
// Until gRPC has noticed that a connection is cut, and has let go of what it had for it.
constexpr int kLooksAfterCut = 10;
constexpr std::chrono::milliseconds kPauseAfterVain{500};

}  // namespace

bool MemoryRelief::may_help(wire::ReserveLeft left) const {
  return under_way_ ||
         (left != wire::ReserveLeft::kHalf && steady_clock::now() >= not_before_.load());
}

void MemoryRelief::look(wire::ReserveLeft left) {
  if (may_help(left) && !under_way_.exchange(true)) loop_.post([this] { step(); });
}

void MemoryRelief::step() {
  means_.give_back();
  const bool scarce = means_.left() != wire::ReserveLeft::kHalf;
  const bool waits = looks_ != 0;
  if (scarce && (waits || means_.cut())) {
    looks_ = waits ? looks_ - 1 : kLooksAfterCut;
    loop_.after(kStep, [this] { step(); });
    return;
  }
  looks_ = 0;
  if (scarce) not_before_ = steady_clock::now() + kPauseAfterVain;
  end();
}

void MemoryRelief::await(steady_clock::time_point until) {
  const wire::MutexLock lock(mutex_);
  while (under_way_ && steady_clock::now() < until) ended_.wait_until(mutex_, until);
}

void MemoryRelief::end() {
  {
    const wire::MutexLock lock(mutex_);
    under_way_ = false;
  }
  ended_.notify_all();
}

}  // namespace memlease::server
