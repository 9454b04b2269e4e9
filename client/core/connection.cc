#include "client/core/connection.h"

#include <utility>

#include "proto/wire/error.h"

namespace memlease::internal {

Connection::Connection(std::shared_ptr<Session> session) : session_(std::move(session)) {}

// Destroying a client closes nothing: open(...) on a temporary client is how people write it.
Connection::~Connection() {
  if (!closed_.load() && !session_->forked()) session_->remove_connection(false);
}

absl::StatusOr<Session*> Connection::use() {
  if (closed_.load() && !session_->forked()) {
    return wire::make_error(wire::ErrorCode::kClosed, "this client has been closed",
                            "Call connect() again.");
  }
  if (auto status = session_->look(); !status.ok()) return status;
  session_->flush();
  return session_.get();
}

void Connection::close() {
  if (closed_.exchange(true) || session_->forked()) return;
  if (session_->remove_connection(true)) session_->close();
}

}  // namespace memlease::internal
