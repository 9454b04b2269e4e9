#include "wire/error.h"

#include <array>
#include <cstdlib>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "fmt/format.h"

namespace memlease::wire {
namespace {

constexpr absl::string_view kCodeUrl = "memlease/code";
constexpr absl::string_view kHintUrl = "memlease/hint";

// Debian builds abseil with a string_view of its own.
absl::string_view to_absl(std::string_view text) { return {text.data(), text.size()}; }

struct Code {
  std::string_view name;
  absl::StatusCode status;
};

// Indexed by ErrorCode - 1.
#define MEMLEASE_X(number, name, status) Code{#name, absl::StatusCode::status},
constexpr std::array kCodes = {MEMLEASE_ERROR_CODES(MEMLEASE_X)};
#undef MEMLEASE_X

#define MEMLEASE_X(number, name, status) (number),
constexpr bool numbers_are_in_order_without_gaps() {
  int last = 0;
  for (const int number : {MEMLEASE_ERROR_CODES(MEMLEASE_X)}) {
    if (number != ++last) return false;
  }
  return true;
}
static_assert(numbers_are_in_order_without_gaps());
#undef MEMLEASE_X

const Code& row_of(ErrorCode code) { return kCodes.at(static_cast<std::size_t>(code) - 1); }

}  // namespace

bool is_error_code(int value) {
  return value >= 1 && static_cast<std::size_t>(value) <= kCodes.size();
}

std::string_view name_of(ErrorCode code) { return row_of(code).name; }

std::string id_of(ErrorCode code) { return fmt::format("ML{:03}", static_cast<int>(code)); }

absl::Status make_error(ErrorCode code, std::string_view message, std::string_view hint) {
  absl::Status status(row_of(code).status, to_absl(message));
  status.SetPayload(kCodeUrl, absl::Cord(std::to_string(static_cast<int>(code))));
  if (!hint.empty()) status.SetPayload(kHintUrl, absl::Cord(to_absl(hint)));
  return status;
}

ErrorCode code_of(const absl::Status& status) {
  const auto payload = status.GetPayload(kCodeUrl);
  if (!payload) return ErrorCode::kInternal;
  const int value = std::atoi(std::string(*payload).c_str());
  return is_error_code(value) ? static_cast<ErrorCode>(value) : ErrorCode::kInternal;
}

std::string message_of(const absl::Status& status) { return std::string(status.message()); }

std::string hint_of(const absl::Status& status) {
  const auto payload = status.GetPayload(kHintUrl);
  return payload ? std::string(*payload) : std::string();
}

absl::Status defect(std::string_view what) {
  return make_error(ErrorCode::kInternal, what, "This is a defect of memlease; please report it.");
}

absl::Status errno_error(ErrorCode code, std::string_view what, int error_number,
                         std::string_view hint) {
  return make_error(code, fmt::format("{}: {}", what, std::strerror(error_number)), hint);
}

}  // namespace memlease::wire
