#include "client/channel/attach_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <utility>

#include "client/channel/attach_handshake.h"
#include "fmt/format.h"
#include "wire/error.h"
#include "wire/frame_socket.h"
#include "wire/place.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;
using wire::make_error;

constexpr std::chrono::seconds kPatience{10};

Deadline in(std::chrono::seconds time) { return std::chrono::steady_clock::now() + time; }

absl::Status forked() {
  return make_error(ErrorCode::kForkedClient,
                    "this client belongs to the parent process, from before fork",
                    "Connect again in the child.");
}

}  // namespace

absl::StatusOr<std::unique_ptr<AttachClient>> AttachClient::connect(const std::string& directory,
                                                                    InterruptCheck interrupt) {
  auto socket = AttachSocket::connect(directory);
  if (!socket.ok()) return socket.status();
  const std::string path = fmt::format("{}/{}", directory, wire::kAttachSocket);
  auto welcome = shake_hands((*socket)->get(), path, in(kPatience), interrupt);
  if (!welcome.ok()) return welcome.status();
  return std::unique_ptr<AttachClient>(
      new AttachClient(*std::move(socket), path, *std::move(welcome)));
}

AttachClient::AttachClient(std::unique_ptr<AttachSocket> socket, std::string path,
                           wire::WelcomeFrame welcome)
    : path_(std::move(path)), welcome_(std::move(welcome)), socket_(std::move(socket)) {}

AttachClient::~AttachClient() { AttachClient::goodbye(); }

absl::StatusOr<SharedFile> AttachClient::fetch(wire::FileId file) {
  // First, since in a forked child another thread of the parent may hold the lock for ever.
  const int socket = socket_->get();
  if (socket < 0) return forked();
  const wire::MutexLock lock(mutex_);
  if (state_ == State::kSaidGoodbye) {
    return make_error(ErrorCode::kClosed, "this client has been closed", "Connect again.");
  }
  if (state_ == State::kLost) return lost("an earlier call found it broken");
  const std::uint32_t request_id = ++last_request_id_;
  // If this fails, what the daemon said before it closed the connection says more than errno.
  wire::send_frame(socket, wire::encode_frame({request_id, wire::FetchFrame{file}}));
  auto reply = await_reply(socket, in(kPatience), kNoInterrupts);
  if (!reply.ok()) return lost(wire::message_of(reply.status()));
  const wire::Frame& frame = reply->frame;
  if (const auto* said = std::get_if<wire::ErrorFrame>(&frame.payload)) {
    // Without our request's id it is the daemon's last word on the connection.
    if (frame.request_id != request_id) drop();
    return wire::to_status(*said);
  }
  const auto* answer = std::get_if<wire::FileFrame>(&frame.payload);
  if (answer == nullptr || frame.request_id != request_id || answer->file != file || !reply->fd) {
    return lost(fmt::format("it answered FETCH of file {} by another {}", to_int(file),
                            wire::name_of(wire::type_of(frame))));
  }
  return SharedFile{std::move(reply->fd), answer->kind, answer->size_bytes, answer->writable};
}

void AttachClient::drop() {
  state_ = State::kLost;
  ::shutdown(socket_->get(), SHUT_RDWR);
}

absl::Status AttachClient::lost(std::string_view reason) {
  drop();
  return make_error(ErrorCode::kDaemonLost,
                    fmt::format("the session with the daemon at {} (pid {}) has ended: {}", path_,
                                welcome_.daemon_pid, reason),
                    "Connect again; if no daemon runs, start one.");
}

bool AttachClient::alive() {
  pollfd entry{socket_->get(), POLLRDHUP, 0};
  if (entry.fd < 0) return false;
  return ::poll(&entry, 1, 0) == 0;
}

void AttachClient::goodbye() {
  const int socket = socket_->get();
  if (socket < 0) return;
  const wire::MutexLock lock(mutex_);
  if (state_ != State::kConnected) return;
  state_ = State::kSaidGoodbye;
  wire::send_frame(socket, wire::encode_frame({0, wire::ByeFrame{}}));
  ::shutdown(socket, SHUT_RDWR);
}

}  // namespace memlease::internal
