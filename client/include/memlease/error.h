// What every call of this library throws: for each code a class of its own, all of them an Error.
// Standard library only, C++17.
#pragma once

#include <memlease/version.h>

#include <stdexcept>
#include <string>

namespace memlease {

// Stable numbers; "ML002" in the texts is NotFound. The names are those of Python's exceptions, and
// of the classes below, which say what each means; only the class of Timeout is TimedOut.
// NOLINTBEGIN(readability-identifier-naming)
enum class ErrorCode : int {
  InvalidArgument = 1,
  NotFound = 2,
  AlreadyExists = 3,
  Denied = 4,
  QuotaExceeded = 5,
  OutOfMemory = 6,
  NoFreeSlot = 7,
  Timeout = 8,
  Withdrawn = 9,
  VersionGone = 10,
  ProducerDied = 11,
  WriteAborted = 12,
  ForkedClient = 13,
  Closed = 14,
  DaemonUnavailable = 15,
  DaemonLost = 16,
  VersionSkew = 17,
  Busy = 18,
  Unsupported = 19,
  Interrupted = 20,
  Internal = 21,
  TooManyHeld = 22,
};
// NOLINTEND(readability-identifier-naming)

// "NotFound".
MEMLEASE_API const char* name_of(ErrorCode code) noexcept;

// For `catch (const memlease::Error&)`, whatever the code; what is thrown is one of the classes
// below. what() is "message (hint) [ML002]". Copyable, thread-safe as any value.
class MEMLEASE_API Error : public std::runtime_error {
 public:
  ~Error() override;
  ErrorCode code() const noexcept { return code_; }
  // What happened and why.
  const std::string& message() const noexcept MEMLEASE_LIFETIMEBOUND { return message_; }
  // What to do about it; may be empty.
  const std::string& hint() const noexcept MEMLEASE_LIFETIMEBOUND { return hint_; }

 protected:
  Error(ErrorCode code, const std::string& message, const std::string& hint);

 private:
  ErrorCode code_;
  std::string message_;
  std::string hint_;
};

// What the classes below have in common.
template <ErrorCode Code>
class MEMLEASE_API ErrorOf : public Error {
 public:
  explicit ErrorOf(const std::string& message, const std::string& hint = {})
      : Error(Code, message, hint) {}
};

// An argument is malformed or out of range.
struct MEMLEASE_API InvalidArgument : ErrorOf<ErrorCode::InvalidArgument> {
  using ErrorOf::ErrorOf;
};

// No array has this name, or the caller may not read it.
struct MEMLEASE_API NotFound : ErrorOf<ErrorCode::NotFound> {
  using ErrorOf::ErrorOf;
};

// The name is taken, with `exist_ok` by an array of another kind.
struct MEMLEASE_API AlreadyExists : ErrorOf<ErrorCode::AlreadyExists> {
  using ErrorOf::ErrorOf;
};

// The caller's uid may not do this.
struct MEMLEASE_API Denied : ErrorOf<ErrorCode::Denied> {
  using ErrorOf::ErrorOf;
};

// The uid's quota is used up.
struct MEMLEASE_API QuotaExceeded : ErrorOf<ErrorCode::QuotaExceeded> {
  using ErrorOf::ErrorOf;
};

// The daemon's memory limit, or the machine's memory, is used up.
struct MEMLEASE_API OutOfMemory : ErrorOf<ErrorCode::OutOfMemory> {
  using ErrorOf::ErrorOf;
};

// Every slot is being read; the message names the readers.
struct MEMLEASE_API NoFreeSlot : ErrorOf<ErrorCode::NoFreeSlot> {
  using ErrorOf::ErrorOf;
};

// A deadline of the caller has passed. (`Timeout` is the time that a call is given.)
struct MEMLEASE_API TimedOut : ErrorOf<ErrorCode::Timeout> {
  using ErrorOf::ErrorOf;
};

// The array has been withdrawn.
struct MEMLEASE_API Withdrawn : ErrorOf<ErrorCode::Withdrawn> {
  using ErrorOf::ErrorOf;
};

// The version has been overwritten.
struct MEMLEASE_API VersionGone : ErrorOf<ErrorCode::VersionGone> {
  using ErrorOf::ErrorOf;
};

// The writer died in the middle of the version.
struct MEMLEASE_API ProducerDied : ErrorOf<ErrorCode::ProducerDied> {
  using ErrorOf::ErrorOf;
};

// With one slot: the writer dropped its write, and there is no version.
struct MEMLEASE_API WriteAborted : ErrorOf<ErrorCode::WriteAborted> {
  using ErrorOf::ErrorOf;
};

// A handle of the parent process was used in a forked child.
struct MEMLEASE_API ForkedClient : ErrorOf<ErrorCode::ForkedClient> {
  using ErrorOf::ErrorOf;
};

// The handle, lease or client has been closed.
struct MEMLEASE_API Closed : ErrorOf<ErrorCode::Closed> {
  using ErrorOf::ErrorOf;
};

// No daemon answers, and none could be started.
struct MEMLEASE_API DaemonUnavailable : ErrorOf<ErrorCode::DaemonUnavailable> {
  using ErrorOf::ErrorOf;
};

// The daemon has gone away since.
struct MEMLEASE_API DaemonLost : ErrorOf<ErrorCode::DaemonLost> {
  using ErrorOf::ErrorOf;
};

// Client and daemon have incompatible versions.
struct MEMLEASE_API VersionSkew : ErrorOf<ErrorCode::VersionSkew> {
  using ErrorOf::ErrorOf;
};

// The calling process itself prevents the call.
struct MEMLEASE_API Busy : ErrorOf<ErrorCode::Busy> {
  using ErrorOf::ErrorOf;
};

// Not possible with this array or build, or on this machine.
struct MEMLEASE_API Unsupported : ErrorOf<ErrorCode::Unsupported> {
  using ErrorOf::ErrorOf;
};

// The wait was ended from outside, as by a std::stop_token.
struct MEMLEASE_API Interrupted : ErrorOf<ErrorCode::Interrupted> {
  using ErrorOf::ErrorOf;
};

// A mistake in memlease itself.
struct MEMLEASE_API Internal : ErrorOf<ErrorCode::Internal> {
  using ErrorOf::ErrorOf;
};

// This process holds its share of the array's versions; the message names them.
struct MEMLEASE_API TooManyHeld : ErrorOf<ErrorCode::TooManyHeld> {
  using ErrorOf::ErrorOf;
};

}  // namespace memlease
