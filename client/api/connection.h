// One Client's share in the process's arrays of one daemon: counts how many of them there are, so
// that the last explicit close closes the session. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "client/arrays/array_table.h"

namespace memlease::internal {

class Connection {
 public:
  // The session counts it already (Session::add_connection).
  explicit Connection(std::shared_ptr<ArrayTable> arrays);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // kClosed, kForkedClient, kDaemonLost or the arrays. Also does what dead views left undone, which
  // may call the daemon and wait for a GPU.
  absl::StatusOr<ArrayTable*> use();
  // ArrayTable::find_open, unless closed.
  std::shared_ptr<OpenArray> find_open(const std::string& name) {
    return closed_.load() ? nullptr : arrays_->find_open(name);
  }
  void close();
  Session& session() const { return arrays_->session(); }

 private:
  const std::shared_ptr<ArrayTable> arrays_;
  std::atomic<bool> closed_{false};
};

}  // namespace memlease::internal
