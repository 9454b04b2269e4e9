#include "client/api/connection.h"

#include <utility>

#include "wire/error.h"

namespace memlease::internal {
namespace {

absl::Status client_closed() {
  return wire::make_error(wire::ErrorCode::kClosed, "this client has been closed",
                          "Call connect() again.");
}

}  // namespace

Connection::Connection(std::shared_ptr<ArrayTable> arrays, std::function<void()> check_interrupt)
    : arrays_(std::move(arrays)),
      interrupt_check_(session().add_interrupt_check(std::move(check_interrupt))) {}

// Destroying a client closes nothing: open(...) on a temporary client is how people write it, and
// the handle keeps this alive.
Connection::~Connection() {
  if (closed_.load() || session().forked()) return;
  session().remove_interrupt_check(interrupt_check_);
  session().remove_connection(false);
}

absl::Status Connection::still_open() const {
  return closed_.load() ? client_closed() : absl::OkStatus();
}

absl::StatusOr<ArrayTable*> Connection::use() {
  if (closed_.load() && !session().forked()) return client_closed();
  if (auto status = session().look(); !status.ok()) return status;
  arrays_->flush();
  return arrays_.get();
}

absl::StatusOr<std::shared_ptr<ArrayHandle>> Connection::join(const OpenAnswer& answer) {
  auto array = arrays_->join(answer);
  if (!array.ok()) return array.status();
  auto handle = make_handle(std::move(*array));
  if (!closed_.load()) return handle;
  handle->close();  // close() came first in another thread, and may not have seen it
  return client_closed();
}

std::shared_ptr<ArrayHandle> Connection::find_open(const std::string& name) {
  if (closed_.load()) return nullptr;
  auto array = arrays_->find_open(name);
  if (array == nullptr) return nullptr;
  auto handle = make_handle(std::move(array));
  if (closed_.load()) handle->close();
  return handle;
}

std::shared_ptr<ArrayHandle> Connection::make_handle(std::shared_ptr<OpenArray> array) {
  auto handle =
      std::make_shared<ArrayHandle>(std::move(array), shared_from_this(), interrupt_check_);
  const wire::MutexLock lock(mutex_);
  if (handles_.size() >= handles_to_prune_) {
    std::erase_if(handles_, [](const auto& known) { return known.expired(); });
    handles_to_prune_ = 2 * handles_.size() + 16;
  }
  handles_.push_back(handle);
  return handle;
}

void Connection::close() {
  if (closed_.exchange(true) || session().forked()) return;
  session().remove_interrupt_check(interrupt_check_);
  std::vector<std::weak_ptr<ArrayHandle>> handles;
  {
    const wire::MutexLock lock(mutex_);
    handles.swap(handles_);
  }
  for (const auto& known : handles) {
    if (const auto handle = known.lock()) handle->close();
  }
  if (session().remove_connection(true)) arrays_->close();
}

}  // namespace memlease::internal
