// What every call of this library throws. Standard library only, C++17.
#pragma once

#include <memlease/version.h>

#include <stdexcept>
#include <string>

namespace memlease {

// Stable numbers; "ML002" in the texts is NotFound. The names are those of Python's exceptions.
// NOLINTBEGIN(readability-identifier-naming)
enum class ErrorCode : int {
  InvalidArgument = 1,
  NotFound = 2,
  AlreadyExists = 3,
  Denied = 4,
  QuotaExceeded = 5,
  OutOfMemory = 6,
  NoFreeSlot = 7,          // every slot is being read; the message names the readers
  Timeout = 8,             // a deadline of the caller has passed
  Withdrawn = 9,           // the array has been withdrawn
  VersionGone = 10,        // the version has been overwritten
  ProducerDied = 11,       // the writer died in the middle of the version
  WriteAborted = 12,       // slots=1: the writer dropped its write, and there is no version
  ForkedClient = 13,       // a handle of the parent process, used in a forked child
  Closed = 14,             // the handle, lease or client has been closed
  DaemonUnavailable = 15,  // no daemon answers and none could be started
  DaemonLost = 16,         // the daemon has gone away since
  VersionSkew = 17,        // client and daemon have incompatible versions
  Busy = 18,               // this process itself prevents the call
  Unsupported = 19,
  Interrupted = 20,  // the wait was ended from outside, as by a std::stop_token
  Internal = 21,
  TooManyHeld = 22,  // this process holds its share of the array's versions
};
// NOLINTEND(readability-identifier-naming)

// "NotFound".
MEMLEASE_API const char* name_of(ErrorCode code) noexcept;

// what() is "message (hint) [ML002]". Copyable, thread-safe as any value.
class MEMLEASE_API Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message, const std::string& hint);
  ~Error() override;
  ErrorCode code() const noexcept { return code_; }
  // What happened and why.
  const std::string& message() const noexcept MEMLEASE_LIFETIMEBOUND { return message_; }
  // What to do about it; may be empty.
  const std::string& hint() const noexcept MEMLEASE_LIFETIMEBOUND { return hint_; }

 private:
  ErrorCode code_;
  std::string message_;
  std::string hint_;
};

}  // namespace memlease
