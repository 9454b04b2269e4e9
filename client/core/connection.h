// One Client's connection: counts how many of them the process has to one daemon, so that the last
// explicit close closes the session. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "client/core/session.h"

namespace memlease::internal {

class Connection {
 public:
  // The session counts it already (Session::add_connection).
  explicit Connection(std::shared_ptr<Session> session);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // kClosed, kForkedClient, kDaemonLost or the session. Also does what its dead views left undone.
  absl::StatusOr<Session*> use();
  // Session::find_open, unless closed.
  std::shared_ptr<ArrayState> find_open(const std::string& name) {
    return closed_.load() ? nullptr : session_->find_open(name);
  }
  void close();
  Session& session() const { return *session_; }

 private:
  const std::shared_ptr<Session> session_;
  std::atomic<bool> closed_{false};
};

}  // namespace memlease::internal
