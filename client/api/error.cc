#include "wire/error.h"

#include <memlease/error.h>

#include <cstdlib>
#include <exception>
#include <type_traits>
#include <utility>

#include "client/api/throw.h"
#include "client/session/interrupt.h"
#include "fmt/format.h"

namespace memlease {
namespace {

wire::ErrorCode to_wire(ErrorCode code) { return static_cast<wire::ErrorCode>(code); }

std::string what_text(ErrorCode code, const std::string& message, const std::string& hint) {
  const std::string id = wire::id_of(to_wire(code));
  return hint.empty() ? fmt::format("{} [{}]", message, id)
                      : fmt::format("{} ({}) [{}]", message, hint, id);
}

// The public list of codes is the one that both sides know.
#define MEMLEASE_X(number, name, status) \
  static_assert(static_cast<int>(ErrorCode::name) == (number));
MEMLEASE_ERROR_CODES(MEMLEASE_X)
#undef MEMLEASE_X

// Where each name of a code means its class.
namespace by_code {

using Timeout = TimedOut;

#define MEMLEASE_X(number, name, status) \
  static_assert(std::is_base_of_v<ErrorOf<ErrorCode::name>, name>);
MEMLEASE_ERROR_CODES(MEMLEASE_X)
#undef MEMLEASE_X

[[noreturn]] void throw_class(ErrorCode code, const std::string& message, const std::string& hint) {
#define MEMLEASE_X(number, name, status) \
  case ErrorCode::name:                  \
    throw name(message, hint);
  switch (code) { MEMLEASE_ERROR_CODES(MEMLEASE_X) }
#undef MEMLEASE_X
  std::abort();  // there is no other code
}

}  // namespace by_code
}  // namespace

const char* name_of(ErrorCode code) noexcept { return wire::name_of(to_wire(code)).data(); }

Error::Error(ErrorCode code, const std::string& message, const std::string& hint)
    : std::runtime_error(what_text(code, message, hint)),
      code_(code),
      message_(message),
      hint_(hint) {}

Error::~Error() = default;

namespace internal {

void throw_error(const absl::Status& status) {
  if (auto interrupt = interrupt_of(status)) std::rethrow_exception(std::move(interrupt));
  by_code::throw_class(static_cast<ErrorCode>(wire::code_of(status)), wire::message_of(status),
                       wire::hint_of(status));
}

}  // namespace internal
}  // namespace memlease
