#include "client/arrays/array_handle.h"

#include <utility>

namespace memlease::internal {

ArrayHandle::ArrayHandle(std::shared_ptr<OpenArray> array, std::shared_ptr<const void> client,
                         std::uint64_t interrupt_check)
    : client_(std::move(client)), array_(std::move(array)), interrupt_check_(interrupt_check) {}

ArrayHandle::~ArrayHandle() {
  if (!closed_.load() && !array_->forked()) array_->drop_handle();
}

absl::Status ArrayHandle::usable() const {
  auto status = array_->usable();
  return status.ok() && closed_.load() ? array_->handle_closed() : status;
}

void ArrayHandle::close() {
  if (!array_->forked() && !closed_.exchange(true)) array_->close_handle();
}

}  // namespace memlease::internal
