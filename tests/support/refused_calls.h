// What a test and the daemon share whose calls of the kernel fail on demand: tests/support/
// failing_calls.h is the test's half, tests/support/failing_calls.cc what is loaded into the daemon
// before all else.
#pragma once

#include <atomic>
#include <cstdint>

namespace memlease::testing {

enum class KernelCall : std::uint32_t {
  kNone,
  kAccept,
  kDuplicate,  // fcntl(F_DUPFD_CLOEXEC)
  kEpollWait,
  kFallocate,
  kFchmod,
  kFstat,
  kFtruncate,
  kGetsockopt,
  kIoctl,
  kMemfdCreate,
  kMmap,  // of a file
  kOpen,
  kPidfdOpen,  // in a kernel that has no SO_PEERPIDFD
  kPipe,
  kPoll,
  kPwrite,
  kRead,
  kRecv,
  kRecvmsg,
  kSeal,  // fcntl(F_ADD_SEALS)
  kSend,
  kSendmsg,
  kSetsockopt,
  kSocketpair,
  kSplice,
  kTimerfdSettime,
  kWatchFile,  // inotify_add_watch()
  kWrite,      // to a file
};

// Instead of an errno: fewer bytes than there are.
inline constexpr std::int32_t kShortResult = 0;

struct RefusedCalls {
  static constexpr const char* kVariable = "REFUSED_CALLS_OF_A_TEST";  // the file's path

  // Written by the test; the daemon counts down, and the call that comes to 0 fails.
  std::atomic<KernelCall> call;
  std::atomic<std::int32_t> error;
  std::atomic<std::int64_t> calls_left;
  // Written by the daemon.
  std::atomic<std::uint32_t> failed;
};

}  // namespace memlease::testing
