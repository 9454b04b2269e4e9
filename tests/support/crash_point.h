// Chooses the step (client/core/crash_point.h) at which this process dies or stops.
#pragma once

#include <string>

namespace memlease::testing {

// The nth passage of `step` from now on raises `signal`, in whichever thread it is. Call it while
// no other thread uses memlease; several calls add up.
void arm_crash(const std::string& step, int nth, int signal);

}  // namespace memlease::testing
