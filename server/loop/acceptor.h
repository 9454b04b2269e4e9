// Accepts the connections of one listening socket, and goes on doing so whatever the clients do: a
// flood that takes the last file descriptor loses its connections, and service returns by itself.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "server/loop/client_socket.h"
#include "server/loop/event_loop.h"
#include "wire/unique_fd.h"

#ifndef SO_PASSPIDFD  // Linux 6.5
#define SO_PASSPIDFD 76
#endif
#ifndef SO_PASSRIGHTS  // Linux 6.16
#define SO_PASSRIGHTS 83
#endif

namespace memlease::server {

// The uid that has connected, by SO_PEERCRED; uid_t(-1), which nobody has, if that cannot be had.
uid_t uid_of_peer(int connection);

// Belongs to the loop's thread. Accepts from its creation to its destruction.
class Acceptor {
 public:
  // Called by the loop with a connection, which is close-on-exec, too; not for one whose
  // peer has closed it already.
  using Accepted = std::function<void(ClientSocket connection)>;
  // Called instead for a connection that there is no descriptor for: to say why, before it is
  // closed. With none where it could not even be accepted, and waits.
  using Overloaded = std::function<void(ClientSocket connection)>;

  // `listener` listens already. Neither callback may destroy the acceptor.
  static absl::StatusOr<std::unique_ptr<Acceptor>> start(EventLoop* loop, wire::UniqueFd listener,
                                                         Accepted accepted, Overloaded overloaded);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

 private:
  Acceptor(EventLoop* loop, wire::UniqueFd listener, Accepted accepted, Overloaded overloaded);
  ClientSocket accept() const;
  void accept_one();
  void none_accepted(int error);
  bool shed_one();
  void pause();

  EventLoop* const loop_;
  wire::UniqueFd listener_;
  const Accepted accepted_;
  const Overloaded overloaded_;
  wire::UniqueFd reserve_;  // given up for the moment in which a connection is shed
  EventLoop::TimerId resume_timer_;
};

}  // namespace memlease::server
