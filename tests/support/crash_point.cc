#include "tests/support/crash_point.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <deque>

#include "client/core/crash_point.h"

namespace memlease::testing {
namespace {

struct Armed {
  std::string step;
  int signal;
  std::atomic<int> passages_left;
};

// Filled while no other thread looks.
std::deque<Armed> armed_steps;
std::atomic<bool> waits_look_again{true};
std::string left_out;  // set while no other thread looks

}  // namespace

void arm_crash(const std::string& step, int nth, int signal) {
  armed_steps.emplace_back(step, signal, nth);
}

void leave_out(const std::string& step) { left_out = step; }

void never_look_again() { waits_look_again.store(false); }

}  // namespace memlease::testing

void memlease::internal::crash_point(const char* step) noexcept {
  for (auto& armed : memlease::testing::armed_steps) {
    if (armed.step == step && armed.passages_left.fetch_sub(1) == 1) kill(getpid(), armed.signal);
  }
}

bool memlease::internal::looks_again() noexcept {
  return memlease::testing::waits_look_again.load();
}

bool memlease::internal::leaves_out(const char* step) noexcept {
  return memlease::testing::left_out == step;
}
