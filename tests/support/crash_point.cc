#include "tests/support/crash_point.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <utility>

#include "wire/hooks/test_hooks.h"

namespace memlease::testing {
namespace {

struct Armed {
  std::string step;
  std::function<void()> action;
  std::atomic<int> passages_left;
  bool each = false;
};

// Filled while no other thread looks.
std::deque<Armed> armed_steps;
std::atomic<bool> waits_look_again{true};
std::string left_out;  // set while no other thread looks

}  // namespace

void arm_step(const std::string& step, int nth, std::function<void()> action) {
  armed_steps.emplace_back(step, std::move(action), nth);
}

void arm_each(const std::string& step, std::function<void()> action) {
  armed_steps.emplace_back(step, std::move(action), 0, true);
}

void arm_crash(const std::string& step, int nth, int signal) {
  arm_step(step, nth, [signal] { kill(getpid(), signal); });
}

void leave_out(const std::string& step) { left_out = step; }

void forget_steps() {
  armed_steps.clear();
  left_out.clear();
}

void never_look_again() { waits_look_again.store(false); }

}  // namespace memlease::testing

void memlease::internal::crash_point(const char* step) {
  for (auto& armed : memlease::testing::armed_steps) {
    if (armed.step != step) continue;
    if (armed.each || armed.passages_left.fetch_sub(1) == 1) armed.action();
  }
}

bool memlease::internal::looks_again() noexcept {
  return memlease::testing::waits_look_again.load();
}

bool memlease::internal::leaves_out(const char* step) noexcept {
  return memlease::testing::left_out == step;
}
