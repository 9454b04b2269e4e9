#include "tests/support/raw_client.h"

#include <sys/socket.h>

#include "fmt/format.h"
#include "tests/support/readable.h"
#include "tests/support/unix_socket.h"
#include "wire/frame_socket.h"

namespace memlease::testing {

RawClient::RawClient(const std::string& directory)
    : socket_(connect_unix(directory + "/attach.sock", SOCK_SEQPACKET)) {}

bool RawClient::send(const wire::Payload& payload, std::uint32_t request_id) {
  return send_bytes(wire::encode_frame({request_id, payload}));
}

bool RawClient::send_bytes(std::span<const std::byte> bytes, int fd) {
  const auto fds = fd < 0 ? std::span<const int>() : std::span<const int>(&fd, 1);
  return wire::send_frame(socket_.get(), bytes, fds) == 0;
}

std::optional<wire::Frame> RawClient::receive() {
  while (!readable(socket_.get(), -1)) {
  }
  const auto received = wire::receive_frame(socket_.get(), wire::Ancillary::kFiles);
  if (received.outcome != wire::Received::Outcome::kFrame) return std::nullopt;
  auto frame = wire::parse_frame(received.bytes());
  if (!frame.ok()) return std::nullopt;
  return *std::move(frame);
}

bool RawClient::attach() {
  if (!send(wire::HelloFrame{})) return false;
  const auto challenge = receive();
  if (!challenge || !std::holds_alternative<wire::ChallengeFrame>(challenge->payload)) return false;
  if (!send(wire::ProofFrame{std::get<wire::ChallengeFrame>(challenge->payload).nonce})) {
    return false;
  }
  const auto welcome = receive();
  return welcome && std::holds_alternative<wire::WelcomeFrame>(welcome->payload);
}

std::string RawClient::expect_end_by(wire::ErrorCode code) {
  const auto frame = receive();
  if (!frame) return "ended without a word";
  const auto* error = std::get_if<wire::ErrorFrame>(&frame->payload);
  if (error == nullptr) {
    return fmt::format("got {}", wire::name_of(wire::type_of(*frame)));
  }
  if (error->code != code) {
    return fmt::format("got {}: {}", wire::name_of(error->code), error->message);
  }
  if (error->hint.empty()) return "no hint: " + error->message;
  if (receive()) return "the connection goes on";
  return "";
}

}  // namespace memlease::testing
