// A daemon whose calls of the kernel fail, one at a time, as a test says: the library
// tests/support/failing_calls.cc stands before the C library there (LD_PRELOAD).
#pragma once

#include <atomic>
#include <cstdint>

namespace memlease::testing {

enum class KernelCall : std::uint32_t {
  kNone,
  kAccept,
  kDuplicate,  // fcntl(F_DUPFD_CLOEXEC)
  kEpollAdd,   // epoll_ctl(EPOLL_CTL_ADD)
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
  kPoll,
  kRead,
  kRecv,
  kRecvmsg,
  kSeal,  // fcntl(F_ADD_SEALS)
  kSend,
  kSendmsg,
  kSetsockopt,
  kSocketpair,
  kTimerfdSettime,
  kWrite,  // to a file
};

// Instead of an errno: fewer bytes than there are.
inline constexpr std::int32_t kShortResult = 0;

// In a file that both processes map, which is named in this variable of the environment.
inline constexpr const char* kFailingCallsFile = "FAILING_CALLS_FILE";
struct FailingCalls {
  // Written by the test; the daemon counts down, and the call that comes to 0 fails.
  std::atomic<KernelCall> call;
  std::atomic<std::int32_t> error;
  std::atomic<std::int64_t> calls_left;
  // Written by the daemon.
  std::atomic<std::uint32_t> failed;
};

}  // namespace memlease::testing
