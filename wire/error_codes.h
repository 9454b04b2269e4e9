// The one table of errors: number, name, and the status of gRPC and abseil that goes with it.
//
// Numbers and names are part of the protocol and of the documentation (ML001 is InvalidArgument):
// never renumber, add at the end. client/include/memlease/error.h and python/memlease/errors.py say
// what each means; what they have is compared with this.
#pragma once

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): enumerators cannot be made otherwise
#define MEMLEASE_ERROR_CODES(X)            \
  X(1, InvalidArgument, kInvalidArgument)  \
  X(2, NotFound, kNotFound)                \
  X(3, AlreadyExists, kAlreadyExists)      \
  X(4, Denied, kPermissionDenied)          \
  X(5, QuotaExceeded, kResourceExhausted)  \
  X(6, OutOfMemory, kResourceExhausted)    \
  X(7, NoFreeSlot, kUnavailable)           \
  X(8, Timeout, kDeadlineExceeded)         \
  X(9, Withdrawn, kFailedPrecondition)     \
  X(10, VersionGone, kOutOfRange)          \
  X(11, ProducerDied, kDataLoss)           \
  X(12, WriteAborted, kAborted)            \
  X(13, ForkedClient, kFailedPrecondition) \
  X(14, Closed, kFailedPrecondition)       \
  X(15, DaemonUnavailable, kUnavailable)   \
  X(16, DaemonLost, kUnavailable)          \
  X(17, VersionSkew, kFailedPrecondition)  \
  X(18, Busy, kUnavailable)                \
  X(19, Unsupported, kUnimplemented)       \
  X(20, Interrupted, kCancelled)           \
  X(21, Internal, kInternal)               \
  X(22, TooManyHeld, kResourceExhausted)
