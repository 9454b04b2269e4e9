#include "client/api/write_within.h"

#include "absl/functional/function_ref.h"
#include "client/arrays/open_array.h"
#include "client/arrays/replicas.h"
#include "client/arrays/wait_limit.h"
#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

absl::Status begin_within(ArrayHandle& handle, const WriteOptions& options,
                          std::chrono::nanoseconds default_wait, const Stop* stop, Pins pins,
                          absl::FunctionRef<absl::Status(WaitLimit&)> begin) {
  if (!handle.ready()) {
    if (auto status = handle.use(); !status.ok()) return status;
  }
  OpenArray& array = handle.array();
  if (!array.facts().may_write) {
    return wire::make_error(
        wire::ErrorCode::kDenied,
        fmt::format("'{}' may be read but not written by this process (mode {:#o})", array.name(),
                    array.kind().mode),
        "Its owner must create it with a mode such as 0660.");
  }
  const auto still_open = [&] { return handle.use(); };
  WaitLimit wait_limit(array.session(), handle.interrupt_check(), options.wait, default_wait,
                       still_open, stop);
  if (pins == Pins::kPrepared && array.gpu() == nullptr &&
      array.reader_if_subscribed() == nullptr) {
    wait_limit.start();
    auto status = array.reader([&] { return wait_limit.check_call(); }).status();
    if (!status.ok()) return status;
  }
  return begin(wait_limit);
}

}  // namespace

absl::Status write_within(ArrayHandle& handle, const WriteOptions& options,
                          std::chrono::nanoseconds default_wait, const Stop* stop, Pins pins,
                          WriteAttempt& attempt, IfNoSlot if_none) {
  return begin_within(handle, options, default_wait, stop, pins, [&](WaitLimit& wait_limit) {
    return handle.home() == nullptr ? begin_write(handle.array(), wait_limit, attempt, if_none)
                                    : begin_write_on_replica(handle, wait_limit, attempt, if_none);
  });
}

absl::Status update_within(ArrayHandle& handle, const WriteOptions& options,
                           std::chrono::nanoseconds default_wait, const Stop* stop, Pins pins,
                           WriteAttempt& attempt) {
  return begin_within(handle, options, default_wait, stop, pins, [&](WaitLimit& wait_limit) {
    if (handle.has_places()) {  // before a version is copied here
      auto status = handle.array().check_stream(options.stream);
      if (!status.ok()) return status;
    }
    return begin_update_anywhere(handle, wait_limit, attempt);
  });
}

}  // namespace memlease::internal
