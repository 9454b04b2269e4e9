// The attach channel without the client library, which would keep to the rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "wire/attach_frame.h"
#include "wire/error.h"
#include "wire/unique_fd.h"

namespace memlease::testing {

// A client without manners.
class RawClient {
 public:
  explicit RawClient(const std::string& directory);
  // On a connection that is there.
  explicit RawClient(wire::UniqueFd socket) : socket_(std::move(socket)) {}
  int fd() const { return socket_.get(); }
  bool send(const wire::Payload& payload, std::uint32_t request_id = 0);
  bool send_bytes(std::span<const std::byte> bytes, int fd = -1);
  // Waits. Nothing at the connection's end.
  std::optional<wire::Frame> receive();
  // HELLO to WELCOME.
  bool attach();
  // "" if the next frame is an ERROR of `code`, after which the connection ends.
  std::string expect_end_by(wire::ErrorCode code);

 private:
  wire::UniqueFd socket_;
};

}  // namespace memlease::testing
