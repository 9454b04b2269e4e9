// Where the daemon gets no thread: to find out, and what to say.
#pragma once

#include <cstddef>
#include <latch>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::server {

// `what` is missing: "the daemon gets no thread".
inline absl::Status thread_shortage(std::string_view what, const std::system_error& error) {
  return wire::make_error(wire::ErrorCode::kOutOfMemory, fmt::format("{}: {}", what, error.what()),
                          "Raise the limit of the daemon's user (ulimit -u), or of its control "
                          "group (TasksMax=, pids.max).");
}

// Has so many at once, and ends them. Throws std::system_error if there are not as many.
inline void try_threads(std::size_t count) {
  struct Tried {
    std::latch all{1};
    std::vector<std::jthread> threads;
    ~Tried() { all.count_down(); }  // before they are joined
  } tried;
  while (tried.threads.size() < count) tried.threads.emplace_back([&] { tried.all.wait(); });
}

}  // namespace memlease::server
