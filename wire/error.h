// Errors as both sides know them: a stable code, what happened and why, and what to do about it.
// Inside the project an error is an absl::Status that carries code and hint as a payload; over
// gRPC it is a memlease.v1.Error in the status details; users see memlease::Error.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "wire/error_codes.h"

namespace memlease::wire {

// kInvalidArgument = 1 and so on, as wire/error_codes.h has them.
#define MEMLEASE_X(number, name, status) k##name = (number),
enum class ErrorCode : int { MEMLEASE_ERROR_CODES(MEMLEASE_X) };
#undef MEMLEASE_X
// Numbers go from 1 to this.
#define MEMLEASE_X(number, name, status) (number),
inline constexpr int kErrorCodes = std::max({MEMLEASE_ERROR_CODES(MEMLEASE_X)});
#undef MEMLEASE_X

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
