#include "client/channel/attach_handshake.h"

#include <memlease/version.h>
#include <poll.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "wire/error.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;
using wire::make_error;

constexpr std::string_view kGoneHint = "Connect again; if it persists, the daemon's log says why.";
constexpr std::string_view kStoppedHint =
    "See whether memleased is stopped or overloaded: memleasectl health.";

std::chrono::milliseconds until(Deadline deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(left), std::chrono::milliseconds{0});
}

// The frame of type T that is due, and the version that it is written in.
template <typename T>
absl::StatusOr<T> expect(int socket, const std::string& path, Deadline deadline,
                         InterruptCheck interrupt, std::uint16_t& protocol) {
  const auto where = fmt::format("attaching to the daemon at {}", path);
  auto reply = await_reply(socket, deadline, interrupt);
  if (!reply.ok()) {
    const auto& error = reply.status();
    switch (wire::code_of(error)) {
      case ErrorCode::kDaemonLost:
        return make_error(ErrorCode::kDaemonUnavailable,
                          where + " failed: it closed the connection", kGoneHint);
      case ErrorCode::kTimeout:
        return make_error(ErrorCode::kTimeout, where + " failed: it does not answer", kStoppedHint);
      case ErrorCode::kVersionSkew:
      case ErrorCode::kInterrupted:
        return error;
      default:
        return make_error(ErrorCode::kInternal,
                          fmt::format("{} failed: {}", where, wire::message_of(error)),
                          "Something else than memleased may listen there.");
    }
  }
  if (const auto* said = std::get_if<wire::ErrorFrame>(&reply->frame.payload)) {
    // A daemon that goes away is as good as none.
    const auto code =
        said->code == ErrorCode::kDaemonLost ? ErrorCode::kDaemonUnavailable : said->code;
    return make_error(code, fmt::format("{} failed: {}", where, said->message), said->hint);
  }
  protocol = reply->protocol;
  if (auto* due = std::get_if<T>(&reply->frame.payload)) return std::move(*due);
  return make_error(ErrorCode::kInternal,
                    fmt::format("{} failed: it sent {} where {} was due", where,
                                wire::name_of(wire::type_of(reply->frame)),
                                wire::name_of(wire::type_of({0, T{}}))),
                    "Bring the memlease library and memleased to the same release.");
}

// Whether it arrives shows in the answer, for which the daemon may have had its reasons.
void say(int socket, const wire::Payload& payload, std::uint16_t protocol) {
  wire::send_frame(socket, wire::encode_frame({0, payload}, protocol));
}

}  // namespace

absl::StatusOr<wire::WelcomeFrame> shake_hands(int socket, const std::string& path,
                                               Deadline deadline, InterruptCheck interrupt) {
  std::uint16_t protocol = wire::max_protocol();
  say(socket, wire::HelloFrame{wire::min_protocol(), protocol, MEMLEASE_VERSION}, protocol);
  crash_point("attach.greeted");
  const auto challenge = expect<wire::ChallengeFrame>(socket, path, deadline, interrupt, protocol);
  if (!challenge.ok()) return challenge.status();
  crash_point("attach.challenged");
  say(socket, wire::ProofFrame{challenge->nonce}, protocol);
  crash_point("attach.proved");
  auto welcome = expect<wire::WelcomeFrame>(socket, path, deadline, interrupt, protocol);
  if (welcome.ok() && welcome->page_layouts != wire::page_layouts()) {
    say(socket, wire::ByeFrame{}, protocol);
    return make_error(
        ErrorCode::kVersionSkew,
        fmt::format("the daemon at {}, memleased {}, lays shared pages out otherwise than this "
                    "library, {}: one of them is a build from between two releases",
                    path, welcome->daemon_version, MEMLEASE_VERSION),
        "Build both of the same sources, and restart the daemon: its arrays end with it.");
  }
  return welcome;
}

absl::StatusOr<Reply> await_reply(int socket, Deadline deadline, InterruptCheck interrupt) {
  while (true) {
    auto received = wire::receive_frame(socket, wire::Ancillary::kFiles);
    switch (received.outcome) {
      case wire::Received::Outcome::kFrame: {
        const std::uint16_t protocol = wire::protocol_of(received.bytes());
        auto frame = wire::parse_frame(received.bytes(), protocol);
        if (!frame.ok()) return frame.status();
        return Reply{*std::move(frame), protocol, std::move(received.fds), received.fds_lost};
      }
      case wire::Received::Outcome::kMisfit:
      case wire::Received::Outcome::kDescriptors:  // not where files are expected
        return make_error(ErrorCode::kInvalidArgument,
                          fmt::format("a message on the attach channel was too long, or carried "
                                      "more than {} file descriptors",
                                      wire::kMaxFetchedFiles),
                          "Only memleased speaks on attach.sock.");
      case wire::Received::Outcome::kEnd:
        return make_error(ErrorCode::kDaemonLost, "the daemon closed the connection");
      case wire::Received::Outcome::kNothing:
        break;
    }
    const auto left = until(deadline);
    if (left == std::chrono::milliseconds::zero()) {
      return make_error(ErrorCode::kTimeout, "the daemon does not answer");
    }
    pollfd entry{socket, POLLIN, 0};
    if (::poll(&entry, 1, static_cast<int>(std::min(left, kInterruptInterval).count())) <= 0) {
      if (auto status = interrupt(); !status.ok()) return status;
    }
  }
}

}  // namespace memlease::internal
