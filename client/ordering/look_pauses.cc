#include "client/ordering/look_pauses.h"

#include <algorithm>
#include <thread>

namespace memlease::internal {
namespace {

using std::chrono::microseconds;

constexpr microseconds kAwake{100};
constexpr int kPausesOfWait = 32;

}  // namespace

void LookPauses::pause() {
  const auto lasted = Clock::now() - begin_;
  if (lasted < kAwake) {
    std::this_thread::yield();
    return;
  }
  if (!fine_) fine_.emplace();
  std::this_thread::sleep_for(
      std::clamp<Clock::duration>(lasted / kPausesOfWait, microseconds(10), microseconds(1000)));
}

}  // namespace memlease::internal
