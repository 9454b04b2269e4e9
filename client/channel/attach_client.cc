#include "client/channel/attach_client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "client/session/busy_retries.h"
#include "fmt/format.h"
#include "wire/descriptor_limit.h"
#include "wire/error.h"
#include "wire/frame_socket.h"
#include "wire/held_mutexes.h"
#include "wire/not_cancelled.h"
#include "wire/place.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;
using wire::make_error;

// From a year on it is for ever, so that no sum of times overflows.
Deadline in(std::chrono::nanoseconds time) {
  return std::chrono::steady_clock::now() +
         std::min<std::chrono::nanoseconds>(time, std::chrono::hours(24 * 365));
}

absl::Status closed() {
  return make_error(ErrorCode::kClosed, "this client has been closed", "Connect again.");
}

absl::Status forked() {
  return make_error(ErrorCode::kForkedClient,
                    "this connection is the parent process's, from before fork()",
                    "Take a lease in the child: arrays and clients open themselves again there "
                    "when they are used.");
}

// An answer for each file that was asked for; none if the reply is no answer to that.
std::vector<SharedFile> answers_in(Reply& reply, std::span<const WantedFile> asked) {
  const auto* answer = std::get_if<wire::FileFrame>(&reply.frame.payload);
  if (answer == nullptr || answer->files.front().file != asked.front().file) return {};
  const std::size_t given = answer->files.size();
  if (reply.fds_lost ? reply.fds.size() >= given : reply.fds.size() != given) return {};
  std::vector<SharedFile> answers(asked.size());
  std::size_t at = 0;
  for (std::size_t i = 0; i < given; ++i, ++at) {
    const auto& file = answer->files[i];
    while (at < asked.size() && asked[at].file != file.file) ++at;
    if (at == asked.size()) return {};
    if (i >= reply.fds.size()) continue;
    answers[at] = {std::move(reply.fds[i]), file.kind, file.size_bytes, file.writable};
  }
  return answers;
}

}  // namespace

absl::StatusOr<std::unique_ptr<AttachClient>> AttachClient::connect(
    const std::string& directory, InterruptCheck interrupt, std::chrono::nanoseconds longest) {
  wire::expect_no_mutex_held("the beginning of a session");
  const Deadline end = in(longest);
  BusyRetries retries(directory, end, interrupt);
  for (;;) {
    auto attached = try_to_connect(directory, end, interrupt);
    if (attached.ok()) return attached;
    if (auto stop = retries.after(attached.status()); !stop.ok()) return stop;
  }
}

absl::StatusOr<std::unique_ptr<AttachClient>> AttachClient::try_to_connect(
    const std::string& directory, Deadline end, InterruptCheck interrupt) {
  auto socket = AttachSocket::connect(directory);
  if (!socket.ok()) return socket.status();
  const std::string path = fmt::format("{}/{}", directory, wire::kAttachSocket);
  auto welcome = shake_hands((*socket)->get(), path, end, interrupt);
  if (!welcome.ok()) return welcome.status();
  return std::unique_ptr<AttachClient>(
      new AttachClient(*std::move(socket), path, *std::move(welcome)));
}

AttachClient::AttachClient(std::unique_ptr<AttachSocket> socket, std::string path,
                           wire::WelcomeFrame welcome)
    : path_(std::move(path)), welcome_(std::move(welcome)), socket_(std::move(socket)) {}

AttachClient::~AttachClient() { AttachClient::goodbye(); }

absl::StatusOr<std::vector<SharedFile>> AttachClient::fetch_all(std::span<const WantedFile> files,
                                                                InterruptCheck interrupt) {
  wire::FetchFrame fetch{{}};
  for (const WantedFile& wanted : files) {
    fetch.files.push_back({wanted.file, wanted.access == Access::kWrite});
  }
  const wire::Payload asked = std::move(fetch);
  auto reply = request(asked, interrupt);
  if (!reply.ok()) return reply.status();
  if (reply->fds_lost && reply->fds.empty()) {
    return make_error(ErrorCode::kOutOfMemory,
                      "this process has no file descriptor free for what the daemon passes to it",
                      "Close files, or " + wire::raise_descriptor_limit() + ".");
  }
  auto answers = answers_in(*reply, files);
  if (answers.empty()) return answered_otherwise(asked, reply->frame);
  return answers;
}

// What has no descriptor is fetched when it is wanted, and then it is said why.
absl::StatusOr<FileSource::OpenedArray> AttachClient::open_array(wire::OpeningCall call,
                                                                 const std::string& request,
                                                                 InterruptCheck interrupt) {
  const wire::Payload asked = wire::OpenFrame{call, request};
  auto reply = this->request(asked, interrupt);
  if (!reply.ok()) return reply.status();
  auto* const opened = std::get_if<wire::OpenedFrame>(&reply->frame.payload);
  const std::size_t fds = reply->fds.size();
  if (opened == nullptr ||
      (reply->fds_lost ? fds >= opened->files.size() : fds != opened->files.size())) {
    return answered_otherwise(asked, reply->frame);
  }
  OpenedArray array{std::move(opened->answer), {}};
  for (std::size_t i = 0; i < fds; ++i) {
    const wire::FileFrame::File& file = opened->files[i];
    array.files.emplace_back(
        file.file, SharedFile{std::move(reply->fds[i]), file.kind, file.size_bytes, file.writable});
  }
  return array;
}

FileSource::LateAnswers AttachClient::take_late_answers(std::chrono::milliseconds longest) {
  if (socket_->get() < 0) return {};
  {
    const wire::MutexLock lock(mutex_);
    if (state_ != State::kConnected) return {};
    if (fetching_) return {{}, true};  // that thread waits for it first
    fetching_ = true;
    fetcher_ = std::this_thread::get_id();
  }
  const absl::Cleanup end = [this] { end_fetch(); };
  if (unanswered_) {
    const Deadline due = std::exchange(answer_due_, std::min(answer_due_, in(longest)));
    auto late = await_answer(kNoInterrupts);
    answer_due_ = due;
    if (late.ok()) keep_late(std::move(late->frame));
  }
  return {std::exchange(late_answers_, {}), unanswered_};
}

absl::StatusOr<Reply> AttachClient::request(const wire::Payload& asked, InterruptCheck interrupt) {
  wire::expect_no_mutex_held("a request to the daemon");
  const wire::NotCancelled whole;  // who comes next would take the answer for its own
  // First, since in a forked child another thread of the parent may hold the lock for ever.
  if (socket_->get() < 0) return forked();
  // The check may fork.
  const auto check = [&] {
    const absl::Status status = interrupt();
    return status.ok() && socket_->get() < 0 ? forked() : status;
  };
  if (auto status = begin_fetch(check); !status.ok()) return status;
  const absl::Cleanup end = [this] { end_fetch(); };
  return ask(asked, check);
}

absl::Status AttachClient::begin_fetch(InterruptCheck interrupt) {
  wire::MutexLock lock(mutex_);
  while (fetching_) {
    if (fetcher_ == std::this_thread::get_id()) {
      return make_error(ErrorCode::kBusy,
                        "this thread waits for the daemon, and needs something else of it in its "
                        "signal handler or interrupt check",
                        "Note the signal there, and do that after the call.");
    }
    const auto asks = std::chrono::steady_clock::now() + kInterruptInterval;
    if (idle_.wait_until(mutex_, asks) == std::cv_status::no_timeout) continue;
    lock.unlock();
    if (auto status = interrupt(); !status.ok()) return status;
    lock.lock();
  }
  if (state_ == State::kSaidGoodbye) return closed();
  if (state_ == State::kConnected) {
    fetching_ = true;
    fetcher_ = std::this_thread::get_id();
    return absl::OkStatus();
  }
  lock.unlock();
  return lost("an earlier call found it broken");
}

void AttachClient::end_fetch() {
  if (socket_->get() < 0) return;
  const wire::MutexLock lock(mutex_);
  fetching_ = false;
  idle_.notify_all();
}

absl::StatusOr<Reply> AttachClient::ask(const wire::Payload& asked, InterruptCheck interrupt) {
  if (unanswered_) {  // nobody waits for that answer any more
    auto other = await_answer(interrupt);
    if (!other.ok()) return other.status();
    keep_late(std::move(other->frame));
  }
  const std::uint32_t request_id = ++last_request_id_;
  unanswered_ = true;
  answer_due_ = in(kAnswerTimeout);
  // If this fails, what the daemon said before it closed the connection says more than errno.
  wire::send_frame(socket_->get(), wire::encode_frame({request_id, asked}, welcome_.protocol));
  auto reply = await_answer(interrupt);
  if (!reply.ok()) return reply.status();
  if (const auto* said = std::get_if<wire::ErrorFrame>(&reply->frame.payload)) {
    return wire::to_status(*said);
  }
  return reply;
}

void AttachClient::keep_late(wire::Frame frame) {
  auto* const opened = std::get_if<wire::OpenedFrame>(&frame.payload);
  if (opened != nullptr) late_answers_.push_back(std::move(opened->answer));
}

absl::Status AttachClient::answered_otherwise(const wire::Payload& asked,
                                              const wire::Frame& answer) {
  const auto* fetch = std::get_if<wire::FetchFrame>(&asked);
  return lost(fmt::format("it answered {} by another {}",
                          fetch == nullptr
                              ? "OPEN"
                              : fmt::format("FETCH of file {}", to_int(fetch->files.front().file)),
                          wire::name_of(wire::type_of(answer))));
}

absl::StatusOr<Reply> AttachClient::await_answer(InterruptCheck interrupt) {
  absl::Status stopped;
  const auto check = [&] { return stopped = interrupt(); };
  auto reply = await_reply(socket_->get(), answer_due_, check);
  if (!stopped.ok()) return stopped;
  if (!reply.ok() && wire::code_of(reply.status()) == ErrorCode::kTimeout) {
    return make_error(
        ErrorCode::kTimeout,
        fmt::format("the daemon at {} (pid {}) does not answer", path_, welcome_.daemon_pid),
        "See whether memleased is stopped or overloaded: memleasectl health.");
  }
  if (!reply.ok()) return lost(wire::message_of(reply.status()));
  const wire::Frame& frame = reply->frame;
  if (frame.request_id == last_request_id_) {
    unanswered_ = false;
    return reply;
  }
  // Without our request's id it is the daemon's last word on the connection.
  if (const auto* said = std::get_if<wire::ErrorFrame>(&frame.payload)) {
    drop();
    return wire::to_status(*said);
  }
  return lost(fmt::format("it answered by another {}", wire::name_of(wire::type_of(frame))));
}

void AttachClient::drop() {
  const wire::MutexLock lock(mutex_);
  if (state_ == State::kConnected) state_ = State::kLost;
  if (!socket_->closed_by_program()) ::shutdown(socket_->get(), SHUT_RDWR);
}

absl::Status AttachClient::lost(std::string_view reason) {
  if (socket_->closed_by_program()) reason = "this program has closed its descriptor";
  drop();
  const wire::MutexLock lock(mutex_);
  if (state_ == State::kSaidGoodbye) return closed();
  return make_error(ErrorCode::kDaemonLost,
                    fmt::format("the session with the daemon at {} (pid {}) has ended: {}", path_,
                                welcome_.daemon_pid, reason),
                    "Connect again; if no daemon runs, start one.");
}

bool AttachClient::alive() {
  pollfd entry{socket_->get(), POLLRDHUP | POLLIN, 0};
  if (entry.fd < 0) return false;
  const int ready = ::poll(&entry, 1, 0);
  if (ready == 0 || (ready < 0 && errno == EINTR)) return true;
  if (ready < 0) return !has_ended(entry.fd) && !socket_->closed_by_program();
  // Few files in its place would have nothing to read.
  if (entry.revents != POLLIN || socket_->closed_by_program()) return false;
  const wire::MutexLock lock(mutex_);
  if (!fetching_ && unanswered_) {
    const auto late = wire::receive_frame(entry.fd, wire::Ancillary::kFiles);
    unanswered_ = late.outcome == wire::Received::Outcome::kNothing;
    auto frame = wire::parse_frame(late.bytes(), welcome_.protocol);
    if (frame.ok()) keep_late(*std::move(frame));
  }
  return true;
}

void AttachClient::goodbye() {
  if (socket_->get() < 0) return;
  const wire::MutexLock lock(mutex_);
  if (state_ != State::kConnected) return;
  state_ = State::kSaidGoodbye;
  if (say(wire::ByeFrame{})) ::shutdown(socket_->get(), SHUT_RDWR);
}

bool AttachClient::say(const wire::Payload& last_word) {
  const int socket = socket_->get();
  if (socket < 0 || socket_->closed_by_program()) return false;
  wire::send_frame(socket, wire::encode_frame({0, last_word}, welcome_.protocol));
  return true;
}

}  // namespace memlease::internal
