// Errors as both sides know them: a stable code, what happened and why, and what to do about it.
// Inside the project an error is an absl::Status that carries code and hint as a payload; over
// gRPC it is a memlease.v1.Error in the status details; users see memlease::Error.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace memlease::wire {

// The numbers are part of the protocol and of the documentation (ML001 = kInvalidArgument):
// never renumber.
enum class ErrorCode : int {
  kInvalidArgument = 1,
  kNotFound = 2,
  kAlreadyExists = 3,
  kDenied = 4,
  kQuotaExceeded = 5,
  kOutOfMemory = 6,
  kNoFreeSlot = 7,
  kTimeout = 8,
  kWithdrawn = 9,
  kVersionGone = 10,
  kProducerDied = 11,
  kWriteAborted = 12,
  kForkedClient = 13,
  kClosed = 14,
  kDaemonUnavailable = 15,
  kDaemonLost = 16,
  kVersionSkew = 17,
  kBusy = 18,
  kUnsupported = 19,
  kInterrupted = 20,
  kInternal = 21,
};

// "NotFound" and so on: the name under which Python raises it.
std::string_view name_of(ErrorCode code);
// "ML002": stable id for search engines and the catalogue of errors.
std::string id_of(ErrorCode code);
bool is_error_code(int value);

// `message` says what and why, `hint` what to do next (may be empty).
absl::Status make_error(ErrorCode code, std::string_view message, std::string_view hint = "");
// kInternal for a status that make_error did not make.
ErrorCode code_of(const absl::Status& status);
std::string message_of(const absl::Status& status);
std::string hint_of(const absl::Status& status);

// kInternal: something that memlease itself must have got wrong.
absl::Status defect(std::string_view what);

// "what: strerror(errno)" for a failed system call.
absl::Status errno_error(ErrorCode code, std::string_view what, int error_number,
                         std::string_view hint = "");

}  // namespace memlease::wire
