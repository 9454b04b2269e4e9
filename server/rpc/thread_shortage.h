// What to say where the daemon gets no thread.
#pragma once

#include <string_view>
#include <system_error>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::server {

// `what` is missing: "the daemon gets no thread".
inline absl::Status thread_shortage(std::string_view what, const std::system_error& error) {
  return wire::make_error(wire::ErrorCode::kOutOfMemory, fmt::format("{}: {}", what, error.what()),
                          "Raise the limit of the daemon's user (ulimit -u), of its control group "
                          "(TasksMax=, pids.max), or of its memory (ulimit -v, LimitAS=, "
                          "LimitDATA=).");
}

}  // namespace memlease::server
