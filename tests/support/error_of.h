#pragma once

#include <memlease/error.h>

#include <optional>
#include <utility>

namespace memlease::testing {

// What the call throws of ours; nothing if it returns.
template <typename Call>
std::optional<ErrorCode> error_of(Call&& call) {
  try {
    std::forward<Call>(call)();
    return std::nullopt;
  } catch (const Error& error) {
    return error.code();
  }
}

}  // namespace memlease::testing
