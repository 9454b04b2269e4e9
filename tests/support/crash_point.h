// The tests' half of wire/hooks/test_hooks.h: what happens at which step of this process, and how
// it waits.
#pragma once

#include <functional>
#include <string>

namespace memlease::testing {

// The nth passage of `step` from now on raises `signal`, or does something else, in whichever
// thread it is. Call it while no other thread uses memlease; several calls add up.
void arm_crash(const std::string& step, int nth, int signal);
void arm_step(const std::string& step, int nth, std::function<void()> action);
// Each passage of `step` from now on does something: without a locked instruction of its own, which
// would order the stores in front of it.
void arm_each(const std::string& step, std::function<void()> action);
// From now on this step is not done: a negative control.
void leave_out(const std::string& step);
// All steps are done again, and nothing happens at them.
void forget_steps();
// From now on a wait sleeps until it is woken: a wake-up that does not come shows.
void never_look_again();

}  // namespace memlease::testing
