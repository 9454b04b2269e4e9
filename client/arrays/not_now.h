// What a step of a call says to the one before it, and no user sees: not just now, or not here. No
// error of the table has its code (wire/error_codes.h).
#pragma once

#include "absl/status/status.h"

namespace memlease::internal {

inline absl::Status not_now(const char* why) { return absl::UnknownError(why); }
inline bool is_not_now(const absl::Status& status) { return absl::IsUnknown(status); }

}  // namespace memlease::internal
