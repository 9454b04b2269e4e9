// Whose a handle is, for tests: it opens what a test lets it open, and refuses the rest.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "client/arrays/handle_owner.h"
#include "wire/error.h"

namespace memlease::testing {

class FakeHandleOwner final : public internal::HandleOwner {
 public:
  absl::StatusOr<Opened> open_again(const internal::OpenArray& /*before*/,
                                    std::weak_ptr<internal::ArrayHandle> /*handle*/) override {
    ++opened_again;
    return on_open_again();
  }
  absl::StatusOr<std::shared_ptr<internal::ArrayHandle>> open_replica(
      internal::OpenArray& /*home*/, const std::string& /*device*/,
      internal::InterruptCheck /*interrupt*/) override {
    return refusal();
  }
  absl::StatusOr<std::shared_ptr<internal::OpenArray>> join_replica(
      internal::OpenArray& /*home*/, std::uint32_t number,
      internal::InterruptCheck /*interrupt*/) override {
    ++joined;
    return on_join_replica(number);
  }

  std::function<absl::StatusOr<Opened>()> on_open_again = refusal;
  std::function<absl::StatusOr<std::shared_ptr<internal::OpenArray>>(std::uint32_t number)>
      on_join_replica = [](auto) { return refusal(); };
  int opened_again = 0;
  int joined = 0;

 private:
  static absl::Status refusal() {
    return wire::make_error(wire::ErrorCode::kNotFound, "the fake owner has no such thing");
  }
};

}  // namespace memlease::testing
