#include "server/channel/attach_server.h"

#include <sys/socket.h>

#include <utility>
#include <vector>

#include "fmt/format.h"
#include "server/channel/peer_identity.h"
#include "server/loop/acceptor.h"
#include "server/loop/thread_time.h"
#include "wire/error.h"
#include "wire/frame_socket.h"

namespace memlease::server {
namespace {

using wire::ErrorCode;
using wire::make_error;

absl::Status check_type(int listener) {
  int type = 0;
  socklen_t size = sizeof(type);
  if (::getsockopt(listener, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET) {
    return absl::OkStatus();
  }
  return make_error(ErrorCode::kInvalidArgument, "the attach socket is not a SEQPACKET socket",
                    "If systemd passes it, use ListenSequentialPacket= in the .socket unit.");
}

}  // namespace

absl::StatusOr<std::unique_ptr<AttachServer>> AttachServer::start(EventLoop* loop,
                                                                  SessionHost* host,
                                                                  wire::UniqueFd listener,
                                                                  AttachOptions options) {
  auto checked = check_type(listener.get());
  if (!checked.ok()) return checked;
  std::unique_ptr<AttachServer> server(new AttachServer(loop, host, std::move(options)));
  AttachServer* const self = server.get();
  auto acceptor = Acceptor::start(
      loop, std::move(listener),
      [self](ClientSocket socket) {
        const auto admitted = self->admit(socket);
        if (!admitted.ok()) self->refuse(std::move(socket), admitted);
      },
      [self](ClientSocket socket) {
        self->refuse(
            std::move(socket),
            make_error(ErrorCode::kBusy, "the daemon has no free file descriptor for the client",
                       "Try again; raise the daemon's LimitNOFILE if it persists."));
      });
  if (!acceptor.ok()) return acceptor.status();
  server->acceptor_ = *std::move(acceptor);
  return server;
}

AttachServer::AttachServer(EventLoop* loop, SessionHost* host, AttachOptions options)
    : loop_(loop),
      host_(host),
      options_(std::move(options)),
      proc_(options_.look_at_program),
      handshakes_(options_.unfinished_handshakes_per_uid),
      late_clients_(options_.late_clients_per_uid),
      openings_(options_.openings_per_uid) {}

AttachServer::~AttachServer() = default;

// Takes the socket if it succeeds.
absl::Status AttachServer::admit(ClientSocket& socket) {
  auto peer = identify_peer(socket.get());
  if (!peer.ok()) return peer.status();
  const uid_t payer = options_.payer_of(peer->uid);
  auto charge = handshakes_.charge(payer);
  if (!charge) {
    return make_error(ErrorCode::kBusy,
                      fmt::format("uid {} has {} clients in the middle of connecting, and may not "
                                  "have more",
                                  payer, options_.unfinished_handshakes_per_uid),
                      "Try again when they are connected.");
  }
  auto pidfd = pidfd_of_peer(socket.get(), peer->pid, options_.pidfd_way);
  if (!pidfd.ok()) return pidfd.status();
  const pid_t pid = peer->pid;
  const uid_t uid = peer->uid;
  const ClientKey key = ++last_key_;
  auto process = ProcessWatch::start(
      loop_, *std::move(pidfd), [this, key] { process_exited(key); }, options_.user_of(uid));
  if (!process.ok()) return process.status();
  auto connection = std::make_unique<AttachConnection>(
      loop_, host_, &options_, &proc_, std::move(socket), *std::move(peer), process->pidfd(),
      *std::move(charge), &late_clients_, &openings_);
  const auto started = connection->start([this, key] { connection_ended(key); });
  if (!started.ok()) {
    connection->say_last_word(started);
    log_refusal(uid, started);
    return absl::OkStatus();
  }
  clients_.emplace(key, Client{pid, *std::move(process), std::move(connection), {}, {}});
  return absl::OkStatus();
}

void AttachServer::refuse(ClientSocket socket, const absl::Status& reason) {
  const uid_t uid = uid_of_peer(socket.get());
  log_refusal(uid, reason);
  if (!socket) return;  // it could not even be accepted
  loop_->run_for(options_.user_of(uid), [&](bool rests) {
    if (rests) {
      socket.give_up();
    } else {
      const SocketTime time;
      wire::send_frame(socket.get(), wire::encode_frame({0, wire::to_error_frame(reason)}));
    }
    socket = {};
  });
}

void AttachServer::log_refusal(uid_t uid, const absl::Status& reason) {
  options_.log(uid,
               [&] { return fmt::format("attach: client refused: {}", wire::message_of(reason)); });
}

void AttachServer::connection_ended(ClientKey key) {
  Client& client = clients_.at(key);
  client.session = client.connection->session();
  const std::optional<ProgramMark> program = client.connection->program();
  const Farewell farewell = client.connection->last_words();
  client.connection.reset();
  if (!client.session || !host_->hang_up(*client.session, farewell)) {
    clients_.erase(key);
  } else if (program) {
    client.other_program = std::make_unique<ProgramWatch>(
        loop_, client.pid, client.process.pidfd(), *program,
        [this](pid_t pid) { return proc_.program_of(pid); },
        [this, key] { program_replaced(key); });
  }
}

void AttachServer::process_exited(ClientKey key) {
  if (clients_.at(key).connection) connection_ended(key);
  // Nothing is left to tell if it had no session, or has said goodbye just now.
  const auto client = clients_.extract(key);
  if (client) host_->exited(*client.mapped().session);
}

void AttachServer::program_replaced(ClientKey key) {
  Client& client = clients_.at(key);
  client.other_program.reset();
  if (host_->program_replaced(*client.session)) clients_.erase(key);
}

// Of one who rests it is cut without a word.
void AttachServer::end(ClientKey key, const absl::Status& reason) {
  AttachConnection& connection = *clients_.at(key).connection;
  loop_->run_for(connection.user(), [&](bool rests) {
    if (rests) {
      connection.give_up();
    } else {
      connection.say_last_word(reason);
    }
    connection_ended(key);
  });
}

bool AttachServer::disconnect(wire::SessionId session, const absl::Status& reason) {
  for (const auto& [key, client] : clients_) {
    if (!client.connection || client.connection->session() != session) continue;
    end(key, reason);
    return true;
  }
  return false;
}

void AttachServer::shutdown() {
  acceptor_.reset();
  std::vector<ClientKey> connected;
  for (const auto& [key, client] : clients_) {
    if (client.connection) connected.push_back(key);
  }
  for (const ClientKey key : connected) {
    end(key, make_error(ErrorCode::kDaemonLost, "the daemon is shutting down",
                        "Connect again once it runs."));
  }
}

}  // namespace memlease::server
