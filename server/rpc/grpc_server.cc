#include "server/rpc/grpc_server.h"

#include <fcntl.h>
#include <grpc/grpc.h>
#include <grpcpp/impl/service_type.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "fmt/format.h"
#include "server/rpc/thread_shortage.h"
#include "server/rpc/timer_thread.h"
#include "wire/error.h"
#include "wire/grpc/grpc_needs.h"
#include "wire/grpc/thread_reserve.h"

namespace memlease::server {
namespace {

std::string_view hint_about(Excess excess) {
  switch (excess) {
    case Excess::kOpenStreams:
      return "See what this process is; many honest ones of its user may need more quota_requests.";
    case Excess::kBytesInFlight:
      return "See what this process is; many honest ones of its user may need more "
             "quota_request_bytes.";
    case Excess::kUnreadReplies:
      return "Its user's processes do not take their answers: see whether they are stopped.";
    case Excess::kMemory:
      return "Its user's calls kept most of the daemon's memory as that ran out: see what this "
             "process is; many honest ones need a higher limit (MemoryMax=).";
    default:
      return "No client of memlease does that: see what this process is.";
  }
}

// What nobody reads is the kernel's memory, on the account of the daemon's control group: as little
// for each connection as calls need. gRPC gets stuck for want of a thread where its answers do not
// fit at once; the relay needs none. The kernel doubles it, for what it adds itself.
constexpr int kSendBytesOfGrpc = 16 << 10;
constexpr int kSendBytesOfRelay = 4 << 10;

// What gRPC keeps for a connection with calls, for a call, and for an answer that is not taken.
constexpr std::size_t kBytesOfConnection = std::size_t{25} << 10;
constexpr std::size_t kBytesOfCall = std::size_t{24} << 10;
constexpr std::size_t kBytesOfAnswer = std::size_t{384} << 10;
constexpr std::size_t kWorthCutting = std::size_t{8} << 20;
constexpr std::size_t kMostUntaken = std::size_t{36} << 20;
constexpr std::chrono::milliseconds kOld{100};
constexpr std::chrono::milliseconds kLoadStep{50};
constexpr std::chrono::seconds kLastWords{1};
constexpr std::chrono::seconds kUntilCutCallsEnd{1};

void keep_small_buffer(int socket, int bytes) {
  ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

}  // namespace

GrpcServer::GrpcServer(EventLoop& loop, Log& log, ServiceFactory factory, const GrpcLimits& limits,
                       ConnectionBook book)
    : loop_(loop),
      log_(log),
      factory_(std::move(factory)),
      book_(std::move(book)),
      own_uid_(::geteuid()),
      limits_(limits) {
  // Here rather than in the first connection's way, where descriptors may be short.
  grpc_init();
  end_timer_thread();
}

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::start(EventLoop& loop, Log& log,
                                                              ServiceFactory factory,
                                                              const GrpcLimits& limits,
                                                              ConnectionBook book) {
  // Without descriptors gRPC would end the daemon at the first connection.
  if (auto status = wire::check_descriptors_to_serve(); !status.ok()) return status;
  // A thread that gRPC does not get it would miss for ever.
  if (auto status = wire::reserve_threads("to answer"); !status.ok()) return status;
  const absl::Cleanup the_rest = wire::release_reserved_threads;
  try {
    return std::unique_ptr<GrpcServer>(
        new GrpcServer(loop, log, std::move(factory), limits, std::move(book)));
  } catch (const std::system_error& error) {
    return thread_shortage("the daemon gets no thread", error);
  }
}

// gRPC stays: its end would wait for ever for a thread that it once did not get.
GrpcServer::~GrpcServer() { shutdown(std::chrono::system_clock::now()); }

absl::Status GrpcServer::add_listener(wire::UniqueFd listener) {
  auto acceptor = Acceptor::start(
      &loop_, std::move(listener),
      [this](ClientSocket socket) { on_connection(std::move(socket)); },
      [this](ClientSocket socket) { refuse(std::move(socket), "no file descriptor is left"); });
  if (!acceptor.ok()) return acceptor.status();
  acceptors_.push_back(*std::move(acceptor));
  return absl::OkStatus();
}

void GrpcServer::set_serving(bool serving) {
  serving_ = serving;
  for (auto& [uid, user] : users_) {
    if (user.server) user.server->set_serving(serving);
  }
}

// No timer goes on where there is little, also when it is old.
void GrpcServer::on_traffic() {
  if (load_timer_) return;
  const auto due = FrameMeter::Clock::now() + kLoadStep;
  load_timer_ = loop_.after(kLoadStep, [this, due] {
    load_timer_.reset();
    const auto now = FrameMeter::Clock::now();
    if (now - due > limits_.untaken / 2) awake_since_ = now;
    if (now - awake_since_ >= limits_.untaken) cut_untaken(now);
    if (bytes_of(kept_by_calls(now)) < kWorthCutting) return;
    on_traffic();
    book_.calls_keep_much();
  });
}

void GrpcServer::cut_untaken(FrameMeter::Clock::time_point now) {
  for (const auto& [account, kept] : kept_by_calls(now - limits_.untaken)) {
    if (kept.answers * kBytesOfAnswer > kMostUntaken) cut(*account, Excess::kUnreadReplies);
  }
}

std::size_t GrpcServer::KeptByCalls::bytes() const {
  return (connections * kBytesOfConnection) + (calls * kBytesOfCall) + (answers * kBytesOfAnswer) +
         data_bytes;
}

std::size_t GrpcServer::bytes_of(const ByAccount& kept) {
  std::size_t sum = 0;
  for (const auto& [account, of_account] : kept) sum += of_account.bytes();
  return sum;
}

// Whether his answer is with gRPC, or here, or in a socket.
GrpcServer::ByAccount GrpcServer::kept_by_calls(FrameMeter::Clock::time_point begun_by) const {
  ByAccount kept;
  for (const auto& [id, connection] : connections_) {
    if (!connection.relay) continue;
    const FrameMeter::Load load = connection.relay->load(begun_by);
    if (load.calls == 0) continue;
    KeptByCalls& of_account = kept[&users_.at(connection.uid).account];
    ++of_account.connections;
    of_account.calls += load.calls;
    of_account.answers += load.old_calls;
    of_account.data_bytes += load.bytes;
  }
  for (auto& [account, calls] : kept) {
    calls.answers -= std::min(calls.answers, account->used(Resource::kWaitingCalls));
  }
  return kept;
}

bool GrpcServer::cut_largest() {
  const auto now = FrameMeter::Clock::now();
  const auto kept = kept_by_calls(now - kOld);
  if (bytes_of(kept) < kWorthCutting) return false;
  const auto& largest =
      std::ranges::max_element(kept, {}, [](const auto& one) { return one.second.bytes(); });
  cut(*largest->first, Excess::kMemory);
  return true;
}

void GrpcServer::cut(const Account& account, Excess excess) {
  kept_out_[account.uid()] = EventLoop::Clock::now() + limits_.kept_out;
  std::vector<ConnectionId> ids;
  for (const auto& [id, connection] : connections_) {
    const bool is_its = &users_.at(connection.uid).account == &account;
    if (is_its && connection.relay && connection.relay->load({}).calls != 0) ids.push_back(id);
  }
  for (const ConnectionId id : ids) on_relay_end(id, excess);
  if (cut_timer_) return;
  cut_timer_ = loop_.after(kUntilCutCallsEnd, [this] {
    cut_timer_.reset();
    reaper_.reap(nullptr, {});
  });
}

void GrpcServer::shutdown(std::chrono::system_clock::time_point deadline) {
  acceptors_.clear();
  set_serving(false);
  for (auto& [uid, user] : users_) {
    if (user.server) reaper_.reap(std::move(user.server), deadline);
    if (user.linger) loop_.cancel(*user.linger);
  }
  for (const auto& timer : {load_timer_, cut_timer_}) {
    if (timer) loop_.cancel(*timer);
  }
  pass_last_words(deadline);
  for (auto& [id, connection] : connections_) {
    if (connection.end) ::shutdown(connection.end.get(), SHUT_RDWR);
    loop_.remove(connection.socket.get());
    loop_.remove(connection.end.get());
    loop_.cancel(connection.first_byte);
    run_for(connection.uid, [&connection = connection](bool rests) {
      if (rests) connection.socket.give_up();
      if (rests && connection.relay) connection.relay->give_up();
      connection.relay.reset();
      connection.socket = {};
    });
  }
  connections_.clear();
  reaper_.await(std::chrono::steady_clock::time_point::max());
  users_.clear();
}

// In place of the loop, until the servers have ended; but not for a client that takes nothing, for
// which gRPC would wait without end.
void GrpcServer::pass_last_words(std::chrono::system_clock::time_point deadline) {
  const auto end = deadline + kLastWords;
  bool ended = false;
  while (!ended && std::chrono::system_clock::now() < end) {
    ended = reaper_.await(std::chrono::steady_clock::now() + std::chrono::milliseconds(2));
    for (auto& [id, connection] : connections_) {
      if (!connection.relay) continue;
      run_for(connection.uid, [&relay = *connection.relay](bool rests) {
        if (!rests) relay.deliver();
      });
    }
  }
}

void GrpcServer::on_connection(ClientSocket socket) {
  keep_small_buffer(socket.get(), kSendBytesOfGrpc);
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return;
  Account& account = book_.account(peer.uid);
  auto status = may_connect(peer.uid, account);
  if (status.ok()) status = book_.connected(peer.uid);
  if (!status.ok()) return refuse(std::move(socket), wire::message_of(status));
  const ConnectionId id = ++last_id_;
  status = loop_.add(
      socket.get(), EPOLLIN | EPOLLRDHUP, [this, id](std::uint32_t) { on_first_byte(id); },
      account.uid());
  if (!status.ok()) {
    book_.disconnected(peer.uid);
    return refuse(std::move(socket), wire::message_of(status));
  }
  const auto timer = loop_.after(limits_.first_byte, [this, id] { close(id); }, account.uid());
  connections_.emplace(id, Connection{peer.uid, peer.pid, std::move(socket), timer});
  ++users_.try_emplace(peer.uid, limits_.gate.uid, account).first->second.connections;
}

absl::Status GrpcServer::may_connect(uid_t uid, const Account& account) {
  std::erase_if(kept_out_,
                [now = EventLoop::Clock::now()](const auto& one) { return one.second <= now; });
  if (kept_out_.contains(account.uid())) {
    return wire::make_error(
        wire::ErrorCode::kOutOfMemory,
        fmt::format("a moment ago the calls of uid {} kept too much of the daemon's memory",
                    account.uid()),
        "Make fewer calls at once, and read the answers.");
  }
  if (uid == account.uid() || users_.contains(uid)) return absl::OkStatus();
  const auto uids = std::ranges::count_if(
      users_, [&](const auto& user) { return &user.second.account == &account; });
  if (std::cmp_less(uids, limits_.uids_per_account)) return absl::OkStatus();
  return wire::make_error(
      wire::ErrorCode::kQuotaExceeded,
      fmt::format("uid {} is one of those that uid {} pays for, of which {} have connections, or "
                  "had some a moment ago",
                  uid, account.uid(), uids),
      "Connect by fewer users of one user's containers.");
}

void GrpcServer::on_first_byte(ConnectionId id) {
  Connection& connection = connections_.at(id);
  loop_.cancel(connection.first_byte);
  char first = 0;
  const bool speaks = ::recv(connection.socket.get(), &first, 1, MSG_PEEK) == 1;
  if (!speaks || !adopt(id, connection)) close(id);
}

bool GrpcServer::adopt(ConnectionId id, Connection& connection) {
  User& user = users_.at(connection.uid);
  if (!user.server) {
    auto server = UidServer::start(factory_(connection.uid));
    if (!server.ok()) {
      log_refusal(connection.uid, wire::message_of(server.status()));
      return false;
    }
    user.server = *std::move(server);
    user.server->set_serving(serving_);
  }
  wire::UniqueFd for_grpc =
      connection.uid == own_uid_ ? watch_end(id, connection) : relay(id, connection, user);
  if (!for_grpc) return false;
  connection.adopted = true;
  ++user.adopted;
  if (const auto timer = std::exchange(user.linger, std::nullopt)) loop_.cancel(*timer);
  user.server->adopt(std::move(for_grpc));
  return true;
}

// gRPC never tells that a connection has ended; a duplicate of its descriptor does, which stays
// here.
wire::UniqueFd GrpcServer::watch_end(ConnectionId id, Connection& connection) {
  connection.end.reset(::fcntl(connection.socket.get(), F_DUPFD_CLOEXEC, 3));
  if (!connection.end) return {};
  const auto status = loop_.add(connection.end.get(), EPOLLRDHUP | EPOLLET,
                                [this, id](std::uint32_t) { close(id); });
  if (!status.ok()) return {};
  loop_.remove(connection.socket.get());
  return connection.socket.release();
}

// Gives gRPC the other end of a socket pair.
wire::UniqueFd GrpcServer::relay(ConnectionId id, Connection& connection, User& user) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
    log_refusal(connection.uid, "no file descriptor is left");
    return {};
  }
  wire::UniqueFd ours(pair[0]);
  wire::UniqueFd for_grpc(pair[1]);
  for (const int end : pair) keep_small_buffer(end, kSendBytesOfGrpc);
  keep_small_buffer(connection.socket.get(), kSendBytesOfRelay);
  loop_.remove(connection.socket.get());
  auto relay = Relay::start(
      loop_, std::move(connection.socket), std::move(ours), limits_.gate, user.allowance,
      user.account, [this] { on_traffic(); },
      [this, id](std::optional<Excess> excess) { on_relay_end(id, excess); });
  if (!relay.ok()) {
    log_refusal(connection.uid, wire::message_of(relay.status()));
    return {};
  }
  connection.relay = *std::move(relay);
  return for_grpc;
}

void GrpcServer::on_relay_end(ConnectionId id, std::optional<Excess> excess) {
  if (excess) {
    const Connection& connection = connections_.at(id);
    connection.relay->give_up();
    gate_cuts_.count(*excess);
    log_.write(*book_.log_lines(connection.uid), LogLevel::kWarning,
               excess == Excess::kMemory ? "control connection cut: the daemon needs its memory"
                                         : "control connection cut: it had too much of HTTP/2",
               {{"uid", connection.uid},
                {"pid", connection.pid},
                {"limit", name_of(*excess)},
                {"hint", hint_about(*excess)}});
  }
  close(id);
}

void GrpcServer::close(ConnectionId id) {
  const auto found = connections_.find(id);
  const uid_t uid = found->second.uid;
  const bool adopted = found->second.adopted;
  loop_.remove(found->second.socket.get());
  loop_.remove(found->second.end.get());
  loop_.cancel(found->second.first_byte);
  connections_.erase(found);
  book_.disconnected(uid);

  User& user = users_.at(uid);
  --user.connections;
  if (adopted) --user.adopted;
  // Also if it was made for a connection that gRPC did not get.
  if (user.server && user.adopted == 0 && !user.linger) {
    user.linger = loop_.after(limits_.linger, [this, uid] { retire(uid); });
  }
  if (user.connections == 0 && !user.server) users_.erase(uid);
}

void GrpcServer::retire(uid_t uid) {
  User& user = users_.at(uid);
  user.linger.reset();
  reaper_.reap(std::move(user.server), std::chrono::system_clock::now());
  if (user.connections == 0) users_.erase(uid);
}

// It is closed without a word: GOAWAY with a text would be read as the end of a good connection,
// and gRPC would connect again until the call's deadline.
void GrpcServer::refuse(ClientSocket socket, std::string_view reason) {
  const uid_t uid = uid_of_peer(socket.get());
  log_refusal(uid, reason);
  if (!socket) return;  // it could not even be accepted
  run_for(uid, [&](bool rests) {
    if (rests) socket.give_up();
    socket = {};
  });
}

void GrpcServer::run_for(uid_t uid, absl::FunctionRef<void(bool rests)> task) {
  loop_.run_for(book_.account(uid).uid(), task);
}

void GrpcServer::log_refusal(uid_t uid, std::string_view reason) {
  log_.write(*book_.log_lines(uid), LogLevel::kWarning, "control connection refused",
             {{"reason", reason}});
}

}  // namespace memlease::server
