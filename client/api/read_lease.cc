#include <memlease/read_lease.h>

#include <utility>

#include "client/api/live_lease.h"
#include "client/api/throw.h"
#include "client/arrays/gpu_copy.h"
#include "client/arrays/gpu_lease.h"
#include "client/arrays/open_array.h"
#include "client/arrays/pin.h"
#include "client/ordering/lease_streams.h"
#include "client/ordering/strided_copy.h"

namespace memlease {

using internal::ElementLayout;
using internal::OpenArray;

ReadLease::ReadLease(OpenArray& state, std::uint64_t version, std::uint32_t slot,
                     std::uint64_t interrupt_check) noexcept
    : state_(&state), data_(state.read_data(slot)), version_(version), slot_(slot) {
  streams_.interrupt_check = interrupt_check;
}

ReadLease::ReadLease(ReadLease&& other) noexcept
    : state_(std::exchange(other.state_, nullptr)),
      data_(other.data_),
      version_(other.version_),
      slot_(other.slot_),
      streams_(other.streams_),
      pin_(std::move(other.pin_)) {}

ReadLease& ReadLease::operator=(ReadLease&& other) noexcept {
  if (this != &other) {
    end_quietly();
    state_ = std::exchange(other.state_, nullptr);
    data_ = other.data_;
    version_ = other.version_;
    slot_ = other.slot_;
    streams_ = other.streams_;
    pin_ = std::move(other.pin_);
  }
  return *this;
}

void ReadLease::wait_for_view(Stream consumer) const {
  const OpenArray& state = live();
  if (state.gpu() == nullptr) return;
  if (consumer)
    internal::check(
        internal::stream_wait_version(*state.gpu(), slot_, version_, consumer, streams_));
  internal::note_view(streams_, consumer);
}

void ReadLease::wait_on_host() const {
  const OpenArray& state = live();
  if (state.gpu() != nullptr)
    internal::check(host_wait_version(*state.gpu(), slot_, version_, streams_));
}

Stream ReadLease::export_stream() const {
  OpenArray& state = live();
  if (state.gpu() == nullptr) return {};
  auto stream = internal::export_stream(*state.gpu(), streams_, [&](Stream on) {
    return internal::stream_wait_version(*state.gpu(), slot_, version_, on, streams_);
  });
  internal::note_view(streams_, {});
  return internal::value_or_throw(std::move(stream));
}

ReadLease ReadLease::begin(OpenArray& state, std::uint64_t version, std::uint32_t slot,
                           std::uint64_t interrupt_check, Stream stream) {
  ReadLease lease(state, version, slot, interrupt_check);
  auto status = state.check_lost();
  if (status.ok()) status = state.release_deferred();
  if (status.ok() && stream) {
    status = order_read(*state.gpu(), slot, version, stream, lease.streams_);
  }
  if (status.ok()) return lease;
  lease.end_quietly();
  state.leave_if_due();  // the GPU has failed, and with it what this process had written
  internal::throw_error(status);
}

ReadLease::~ReadLease() { end_quietly(); }

OpenArray& ReadLease::live() const {
  return internal::live_state(
      state_,
      "it was released or moved from; its `with` block does that in Python at its end, and a "
      "loop over a follower with each lease when it goes on to the next");
}

std::uint64_t ReadLease::version() const { return version_; }

std::uint32_t ReadLease::slot() const { return slot_; }

const void* ReadLease::data() const {
  const OpenArray& state = live();
  if (state.gpu() != nullptr)
    internal::check(host_wait_version_once(*state.gpu(), slot_, version_, streams_));
  return data_;
}

void ReadLease::wait(Stream stream) const {
  const OpenArray& state = live();
  if (state.gpu() == nullptr || !stream) return;
  internal::check(order_read(*state.gpu(), slot_, version_, stream, streams_));
}

Pin ReadLease::pin() const { return internal::pin_of(live(), slot_, data_, pin_); }

bool ReadLease::release(Stream stream) {
  if (state_ != nullptr && state_->gpu() != nullptr) {
    end_device(stream, true);
  } else {
    end_quietly();
  }
  return pin_.expired();
}

void ReadLease::end_device(Stream stream, bool may_throw) {
  OpenArray& state = *std::exchange(state_, nullptr);
  // A lease that nothing was ordered for has nothing to wait for.
  if (!streams_.ordered && !stream && pin_.expired()) {
    state.end_read(slot_);
    return;
  }
  if (const Pin pin = pin_.lock()) internal::end_lease_of(state, pin);
  const absl::Status status =
      state.end_device_read(slot_, version_, internal::work_end(streams_, stream),
                            may_throw ? streams_.interrupt_check : 0);
  if (may_throw) internal::check(status);
}

void ReadLease::end_quietly() {
  if (state_ == nullptr) return;
  if (state_->gpu() != nullptr) {
    internal::quietly([&] { end_device({}, false); });
  } else {
    OpenArray& state = *std::exchange(state_, nullptr);
    const Pin pin = pin_.lock();  // keeps the array where the lease does not any more
    state.end_read(slot_);
    if (pin != nullptr) internal::end_lease_of(state, pin);
  }
}

bool ReadLease::released() const noexcept { return state_ == nullptr; }

void ReadLease::get(void* destination, std::uint64_t size_bytes) const {
  get(Region(), destination, size_bytes);
}

void ReadLease::get(const Region& region, void* destination, std::uint64_t size_bytes) const {
  copy_to(static_cast<std::byte*>(destination),
          internal::part_for_buffer(live(), region, size_bytes), false);
}

void ReadLease::copy_to(std::byte* packed, const ElementLayout& part, bool only_use) const {
  OpenArray& state = live();
  if (state.gpu() != nullptr) {
    internal::check(
        internal::get_from_device(state, slot_, version_, part, packed, only_use, streams_));
  } else {
    internal::copy_out(part, static_cast<const std::byte*>(data()), packed);
    state.session().count_copy();
  }
}

}  // namespace memlease
