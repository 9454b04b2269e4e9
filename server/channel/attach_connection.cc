#include "server/channel/attach_connection.h"

#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "server/loop/thread_time.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using wire::ErrorCode;
using wire::make_error;

constexpr std::uint32_t kReading = EPOLLIN | EPOLLRDHUP;
// An edge comes whenever the peer takes a message; at most times the socket is writable anyway.
constexpr std::uint32_t kHoldingBack = EPOLLOUT | EPOLLET | EPOLLRDHUP;

// Frames that nobody has looked at: a library sends one, and waits for its answer.
constexpr int kMostLastWords = 32;
constexpr std::chrono::milliseconds kLastWordsTime{1};  // of a processor
constexpr const char* kForkHint = "After fork, connect again: the child is a session of its own.";

}  // namespace

std::optional<std::uint32_t> AttachOptions::user_of(uid_t uid) const {
  const uid_t payer = payer_of(uid);
  return payer == ::geteuid() ? std::nullopt : std::optional(payer);
}

AttachConnection::AttachConnection(EventLoop* loop, SessionHost* host, const AttachOptions* options,
                                   ProcView* proc, ClientSocket socket, PeerIdentity peer,
                                   int pidfd, UidQuota::Charge handshake, UidQuota* late_clients,
                                   OpeningBudget* openings)
    : loop_(loop),
      host_(host),
      options_(options),
      proc_(proc),
      peer_(std::move(peer)),
      pidfd_(pidfd),
      socket_(std::move(socket)),
      late_clients_(late_clients),
      openings_(openings),
      handshake_charge_(std::move(handshake)) {}

AttachConnection::~AttachConnection() {
  loop_->cancel(handshake_timer_);
  loop_->cancel(unread_timer_);
  loop_->remove(socket_.get());
}

absl::Status AttachConnection::start(std::function<void()> on_end) {
  on_end_ = std::move(on_end);
  socket_.allow_for_a_message(options_->slow_message);
  const int on = 1;
  if (::setsockopt(socket_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0) {
    return wire::errno_error(ErrorCode::kInternal, "SO_PASSCRED", errno);
  }
  auto added = loop_->add(
      socket_.get(), kReading, [this](std::uint32_t events) { end_unless(serve(events)); }, user());
  if (!added.ok()) return added;
  handshake_timer_ = loop_->after(
      options_->handshake_deadline,
      [this] {
        end_unless(reject(make_error(ErrorCode::kTimeout,
                                     fmt::format("the attach handshake took more than {} ms",
                                                 options_->handshake_deadline.count()),
                                     "Connect again.")));
      },
      user());
  return absl::OkStatus();
}

void AttachConnection::end_unless(bool goes_on) {
  if (goes_on) return;
  const auto on_end = std::move(on_end_);
  on_end();  // destroys *this
}

void AttachConnection::say_last_word(const absl::Status& reason) {
  send({0, wire::to_error_frame(reason)});
}

// 0 or errno.
int AttachConnection::send(const wire::Frame& frame, std::span<const int> fds) {
  if (socket_.is_given_up()) return EPIPE;
  const SocketTime time;
  const int error = wire::send_frame(socket_.get(), wire::encode_frame(frame, protocol_), fds);
  socket_.took(time.so_far());
  return error;
}

bool AttachConnection::reject(const absl::Status& reason) {
  say_last_word(reason);
  return drop(reason);
}

bool AttachConnection::drop(const absl::Status& reason) {
  options_->log(peer_.uid, [&] {
    return fmt::format("attach: pid {} ({}, uid {}) disconnected: {}", peer_.pid,
                       peer_.command.empty() ? proc_->name_of(peer_) : peer_.command, peer_.uid,
                       wire::message_of(reason));
  });
  return false;
}

bool AttachConnection::took_too_long() {
  return drop(make_error(ErrorCode::kInvalidArgument,
                         "one of its messages took the kernel very long, as for all that waits "
                         "at its end of the connection",
                         "No client of memlease does that: see what this process is."));
}

bool AttachConnection::serve(std::uint32_t events) {
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) return false;
  if (is_answer_unread()) {
    hold_back();
    return true;
  }
  late_charge_.reset();
  go_on_reading();
  const auto received = receive();
  if (socket_.is_given_up()) return took_too_long();
  switch (received.outcome) {
    case wire::Received::Outcome::kNothing:
      return true;
    case wire::Received::Outcome::kEnd:
      return false;
    case wire::Received::Outcome::kMisfit:
    case wire::Received::Outcome::kDescriptors:
      return reject(make_error(ErrorCode::kInvalidArgument,
                               fmt::format("a message on the attach channel carried file "
                                           "descriptors or more than {} bytes",
                                           wire::kMaxFrameBytes),
                               "Only memlease's own client library speaks to attach.sock."));
    case wire::Received::Outcome::kFrame:
      return handle(received);
  }
  return false;
}

// They may still wait in the socket when the hang-up, or the exit, is seen. Nobody looks for them
// behind many other frames: hundreds of sessions may end in one instant.
Farewell AttachConnection::last_words() {
  const auto until = thread_time() + kLastWordsTime;
  for (int i = 0; state_ == State::kServing && !socket_.is_given_up(); ++i) {
    if (i == kMostLastWords || thread_time() >= until) {
      socket_.give_up();
      break;
    }
    const auto received = receive();
    if (received.outcome != wire::Received::Outcome::kFrame) break;
    const auto frame = wire::parse_frame(received.bytes(), protocol_);
    const bool from_peer = is_from_peer(received) || is_from_exited_peer(received);
    if (from_peer && frame.ok()) note_farewell(frame->payload);
    if (farewell_ == Farewell::kGoodbye) break;
  }
  return farewell_;
}

bool AttachConnection::note_farewell(const wire::Payload& payload) {
  if (std::holds_alternative<wire::ExitFrame>(payload)) {
    farewell_ = Farewell::kExit;
  } else if (std::holds_alternative<wire::ByeFrame>(payload)) {
    farewell_ = Farewell::kGoodbye;
  } else {
    return false;
  }
  return true;
}

wire::Received AttachConnection::receive() {
  const SocketTime time;
  auto received = wire::receive_frame(
      socket_.get(), peer_.has_pid() ? wire::Ancillary::kSender : wire::Ancillary::kSenderProcess);
  socket_.took(time.so_far());
  return received;
}

bool AttachConnection::is_from_peer(const wire::Received& received) const {
  if (!received.sender || received.sender->pid != peer_.pid) return false;
  return peer_.has_pid() ||
         (received.sender_process && is_same_process(received.sender_process.get(), pidfd_));
}

// For one that has been reaped older kernels have no pidfd any more.
bool AttachConnection::is_from_exited_peer(const wire::Received& received) const {
  return !peer_.has_pid() && received.sender && received.sender->pid == peer_.pid &&
         !received.sender_process && has_exited(pidfd_);
}

absl::Status AttachConnection::not_from_peer(const wire::Received& received) const {
  if (peer_.has_pid()) {
    const pid_t sender = received.sender ? received.sender->pid : 0;
    return make_error(ErrorCode::kForkedClient,
                      fmt::format("pid {} uses the attach connection of pid {}", sender, peer_.pid),
                      kForkHint);
  }
  if (!received.sender_process) {
    return make_error(ErrorCode::kBusy,
                      "the daemon has no free file descriptor by which the kernel tells it who "
                      "sends",
                      "Try again; raise the daemon's LimitNOFILE if it persists.");
  }
  return make_error(ErrorCode::kForkedClient,
                    "another process than the one that connected uses its attach connection",
                    kForkHint);
}

bool AttachConnection::handle(const wire::Received& received) {
  // HELLO may have been sent before this side asked for the stamp.
  if (state_ != State::kHello && !is_from_peer(received)) {
    return reject(not_from_peer(received));
  }
  const auto frame = wire::parse_frame(received.bytes(), protocol_);
  if (!frame.ok()) return reject(frame.status());
  const wire::Payload& payload = frame->payload;
  switch (state_) {
    case State::kHello:
      if (const auto* hello = std::get_if<wire::HelloFrame>(&payload)) return on_hello(*hello);
      break;
    case State::kProof:
      if (const auto* proof = std::get_if<wire::ProofFrame>(&payload)) return on_proof(*proof);
      break;
    case State::kServing:
      if (const auto* fetch = std::get_if<wire::FetchFrame>(&payload)) {
        return on_fetch(frame->request_id, *fetch);
      }
      if (const auto* open = std::get_if<wire::OpenFrame>(&payload)) {
        return on_open(frame->request_id, *open);
      }
      if (note_farewell(payload)) return farewell_ != Farewell::kGoodbye;
      break;
  }
  return reject(make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("the attach frame {} is not due now", wire::name_of(wire::type_of(*frame))),
      "Only memlease's own client library speaks to attach.sock."));
}

bool AttachConnection::on_hello(const wire::HelloFrame& hello) {
  // Looked at before the client can have its session, and not for whoever just connects.
  peer_.command = proc_->command_of(peer_);
  program_ = proc_->program_of(peer_);
  const auto protocol = wire::choose_protocol(hello);
  if (!protocol.ok()) return reject(protocol.status());
  protocol_ = *protocol;
  if (::getrandom(nonce_.data(), nonce_.size(), 0) != static_cast<ssize_t>(nonce_.size())) {
    return reject(wire::errno_error(ErrorCode::kInternal, "getrandom", errno));
  }
  state_ = State::kProof;
  return answer(0, wire::ChallengeFrame{nonce_});
}

bool AttachConnection::on_proof(const wire::ProofFrame& proof) {
  if (proof.nonce != nonce_) {
    return reject(make_error(ErrorCode::kDenied, "the client did not return the nonce it was sent",
                             kForkHint));
  }
  if (has_exited(pidfd_)) {
    return reject(
        make_error(ErrorCode::kDenied, "the process that connected has exited", kForkHint));
  }
  const auto opened = host_->open_session(peer_);
  if (!opened.ok()) return reject(opened.status());
  session_ = opened->session;
  state_ = State::kServing;
  handshake_charge_.uncharge();
  loop_->cancel(handshake_timer_);
  wire::WelcomeFrame welcome;
  welcome.session = opened->session;
  welcome.token = opened->token;
  welcome.incarnation = options_->incarnation;
  welcome.protocol = protocol_;
  welcome.daemon_pid = static_cast<std::uint32_t>(::getpid());
  welcome.daemon_version = options_->daemon_version;
  return answer(0, welcome);
}

bool AttachConnection::on_fetch(std::uint32_t request_id, const wire::FetchFrame& fetch) {
  expect_reading();
  wire::FileFrame given{{}};
  std::vector<FileGrant> grants;
  std::vector<int> fds;
  for (const auto& [file, writable] : fetch.files) {
    auto grant = host_->fetch_file(*session_, file, writable);
    if (!grant.ok()) {
      if (grants.empty()) return answer(request_id, wire::to_error_frame(grant.status()));
      continue;
    }
    given.files.push_back({file, grant->kind, grant->size_bytes, grant->writable});
    fds.push_back(grant->fd.get());
    grants.push_back(*std::move(grant));
  }
  return answer(request_id, given, fds);
}

bool AttachConnection::may_open_here() {
  const uid_t payer = options_->payer_of(peer_.uid);
  return payer == 0 || payer == ::geteuid() ||
         openings_->take(payer, std::chrono::steady_clock::now());
}

bool AttachConnection::on_open(std::uint32_t request_id, const wire::OpenFrame& open) {
  expect_reading();
  if (!may_open_here()) return answer(request_id, wire::OpenedFrame{});
  auto opened = host_->open_array(*session_, open.call, open.request);
  if (!opened.ok()) return answer(request_id, wire::to_error_frame(opened.status()));
  wire::OpenedFrame given{std::move(opened->answer), {}};
  std::vector<int> fds;
  for (const OpenedArray::File& file : opened->files) {
    const FileGrant& grant = file.grant;
    given.files.push_back({file.id, grant.kind, grant.size_bytes, grant.writable});
    fds.push_back(grant.fd.get());
  }
  return answer(request_id, given, fds);
}

bool AttachConnection::answer(std::uint32_t request_id, const wire::Payload& payload,
                              std::span<const int> fds) {
  const int error = send({request_id, payload}, fds);
  if (socket_.is_given_up()) return took_too_long();
  if (error == 0) return true;
  if (error == ETOOMANYREFS) {
    // What is open stays open: the client fetches the files, and is told then.
    if (const auto* opened = std::get_if<wire::OpenedFrame>(&payload)) {
      return answer(request_id, wire::OpenedFrame{opened->answer, {}});
    }
    return answer(request_id,
                  wire::to_error_frame(make_error(
                      ErrorCode::kBusy, "too many files are on their way from daemon to clients",
                      "Try again; raise the daemon's LimitNOFILE if it persists.")));
  }
  if (error == EPIPE || error == ECONNRESET) return false;
  return reject(wire::errno_error(ErrorCode::kInternal, "sending on the attach channel", error));
}

// The kernel charges a message to its sender until it is taken; while it tells us so, a byte of the
// charge may remain. A message charges hundreds.
bool AttachConnection::is_answer_unread() const {
  if (state_ == State::kHello) return false;  // there was none
  int charged_bytes = 0;
  return ::ioctl(socket_.get(), SIOCOUTQ, &charged_bytes) == 0 && charged_bytes > 64;
}

void AttachConnection::hold_back() {
  if (holding_back_) return;
  holding_back_ = true;
  loop_->modify(socket_.get(), kHoldingBack);
  if (!late_charge_ && unread_timer_ == EventLoop::TimerId{}) expect_reading();
}

void AttachConnection::go_on_reading() {
  if (!holding_back_) return;
  holding_back_ = false;
  loop_->modify(socket_.get(), kReading);
}

// The deadline by which the client must have read what it is sent next.
void AttachConnection::expect_reading() {
  loop_->cancel(unread_timer_);
  unread_timer_ =
      loop_->after(options_->unread_deadline, [this] { end_unless(on_unread_deadline()); }, user());
}

bool AttachConnection::on_unread_deadline() {
  unread_timer_ = {};
  if (late_charge_ || !is_answer_unread()) return true;
  if (auto charge = late_clients_->charge(options_->payer_of(peer_.uid))) {
    late_charge_.emplace(*std::move(charge));
    hold_back();  // so that its reading is an event
    return true;
  }
  return reject(make_error(
      ErrorCode::kTimeout,
      fmt::format("the client did not read the daemon's answer for {} ms, and too many others of "
                  "its user do not either",
                  options_->unread_deadline.count()),
      "Connect again; a process that is stopped cannot fetch files."));
}

}  // namespace memlease::server
