#include "client/api/connection.h"

#include <utility>

#include "wire/error.h"

namespace memlease::internal {

Connection::Connection(std::shared_ptr<ArrayTable> arrays) : arrays_(std::move(arrays)) {}

// Destroying a client closes nothing: open(...) on a temporary client is how people write it.
Connection::~Connection() {
  if (!closed_.load() && !session().forked()) session().remove_connection(false);
}

absl::StatusOr<ArrayTable*> Connection::use() {
  if (closed_.load() && !session().forked()) {
    return wire::make_error(wire::ErrorCode::kClosed, "this client has been closed",
                            "Call connect() again.");
  }
  if (auto status = session().look(); !status.ok()) return status;
  arrays_->flush();
  return arrays_.get();
}

void Connection::close() {
  if (closed_.exchange(true) || session().forked()) return;
  if (session().remove_connection(true)) arrays_->close();
}

}  // namespace memlease::internal
