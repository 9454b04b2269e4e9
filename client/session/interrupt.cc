#include "client/session/interrupt.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "wire/error.h"
#include "wire/held_mutexes.h"

namespace memlease::internal {
namespace {

constexpr absl::string_view kExceptionUrl = "memlease/interrupt";

}  // namespace

absl::Status call_check(const std::function<void()>& check) {
  wire::expect_no_mutex_held("a check for interrupts of the user's");
  try {
    if (check) check();
  } catch (...) {
    auto exception = std::current_exception();
    if (exception == nullptr) throw;  // the thread is being ended, as Python ends some at its exit
    return interrupted(std::move(exception));
  }
  return absl::OkStatus();
}

// The payload's bytes are the address of an exception_ptr, which lives as long as any copy of the
// payload does.
absl::Status interrupted(std::exception_ptr exception) {
  struct Kept {
    std::exception_ptr exception;
    const std::exception_ptr* address = &exception;
  };
  auto kept = std::make_shared<Kept>();
  kept->exception = std::move(exception);
  const absl::string_view bytes(reinterpret_cast<const char*>(&kept->address),
                                sizeof kept->address);
  absl::Status status = wire::make_error(wire::ErrorCode::kInterrupted, "the wait was interrupted");
  status.SetPayload(kExceptionUrl, absl::MakeCordFromExternal(bytes, [kept] {}));
  return status;
}

std::exception_ptr interrupt_of(const absl::Status& status) {
  const auto payload = status.GetPayload(kExceptionUrl);
  if (!payload) return nullptr;
  const std::string bytes(*payload);
  const std::exception_ptr* exception = nullptr;
  std::memcpy(static_cast<void*>(&exception), bytes.data(), sizeof exception);
  return *exception;
}

}  // namespace memlease::internal
