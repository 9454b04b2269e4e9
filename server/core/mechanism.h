// Mechanisms that the daemon can do without, in a slower or poorer way: what metrics, log and
// history say of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/core/clock.h"

namespace memlease::server {

enum class Mechanism : std::uint8_t {
  kHugePages,   // of the system's pool, for large segments
  kEventWaits,  // GPUs wait for GPUs, without a host
  kDirectory,   // the files that clients find the daemon by
  kMemory,      // for the daemon itself, so that something new may begin
};

// Its name, for programs: "huge_pages".
std::string_view name_of(Mechanism mechanism);

// That the daemon does without it from now on, or has it again.
struct MechanismChange {
  Mechanism mechanism = Mechanism::kMemory;
  bool degraded = false;
  std::string reason;
  std::string hint;  // what to do about it
};

// Says what to tell of a mechanism that may come and go with each call: that it is degraded, at
// most once in kPeriodMs, and that it is not any more, if the former was told. Not thread-safe.
class ChangeWatch {
 public:
  static constexpr std::uint64_t kPeriodMs = 10'000;

  // clock outlives this.
  explicit ChangeWatch(const Clock& clock) : clock_(clock) {}

  // How it is now; the answer, if there is one, is to be told.
  std::optional<bool> look(bool degraded);

 private:
  const Clock& clock_;
  bool told_degraded_ = false;
  std::optional<std::uint64_t> told_at_ms_;  // that it is degraded, the last time
};

}  // namespace memlease::server
