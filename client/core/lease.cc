#include <memlease/lease.h>

#include <utility>

#include "client/core/array_state.h"
#include "client/core/device_copy.h"
#include "client/core/device_lease.h"
#include "client/core/raise.h"
#include "fmt/format.h"
#include "proto/wire/error.h"

namespace memlease {

using internal::ArrayState;
using internal::raise;

namespace internal {

void check_view(const ArrayState& array, DType dtype, std::size_t ndim) {
  const wire::ArraySpec& spec = array.spec();
  const wire::DType wanted{static_cast<wire::DTypeCode>(dtype.code), dtype.bits, dtype.lanes};
  if (wanted == spec.dtype && ndim == spec.shape.size()) return;
  raise(wire::make_error(
      wire::ErrorCode::kInvalidArgument,
      fmt::format("'{}' is {}: a span of {} with {} dimensions does not fit", spec.name,
                  wire::describe(spec), wire::name_of(wanted), ndim),
      "Use span<T, N> with the array's own element type and number of dimensions."));
}

const std::vector<std::int64_t>& shape_of(const ArrayState& array) { return array.spec().shape; }

const std::vector<std::int64_t>& strides_bytes_of(const ArrayState& array) {
  return array.strides_bytes();
}

namespace {

// The array of a lease that has not ended, in the process that took it.
ArrayState& live_state(ArrayState* state) {
  if (state == nullptr) {
    raise(wire::make_error(wire::ErrorCode::kClosed, "this lease has ended", "Take a new one."));
  }
  if (state->forked()) check(state->session().usable());
  return *state;
}

// One pin a lease is enough: its copies count themselves.
Pin pin_of(ArrayState& state, std::uint32_t slot, std::weak_ptr<const void>& known) {
  if (Pin pin = known.lock()) return pin;
  Pin pin = state.pin(slot);
  known = pin;
  return pin;
}

// For destructors. What an exception says is lost: the lease has ended all the same.
template <typename End>
void quietly(End end) noexcept {
  try {
    end();
  } catch (...) {
    return;
  }
}

}  // namespace
}  // namespace internal

// ---- ReadLease.

ReadLease::ReadLease(ReadLease&& other) noexcept
    : state_(std::exchange(other.state_, nullptr)),
      version_(other.version_),
      slot_(other.slot_),
      ordering_(other.ordering_),
      pin_(std::move(other.pin_)) {}

ReadLease& ReadLease::operator=(ReadLease&& other) noexcept {
  if (this != &other) {
    end_quietly();
    state_ = std::exchange(other.state_, nullptr);
    version_ = other.version_;
    slot_ = other.slot_;
    ordering_ = other.ordering_;
    pin_ = std::move(other.pin_);
  }
  return *this;
}

void ReadLease::wait_for_view(Stream consumer) const {
  ArrayState& state = live();
  if (state.order() == nullptr) return;
  if (consumer) internal::check(internal::await_version(state, slot_, version_, consumer));
  internal::note_view(ordering_, consumer);
}

void ReadLease::wait_on_host() const {
  ArrayState& state = live();
  if (state.order() != nullptr) internal::check(await_read(state, slot_, version_, ordering_));
}

Stream ReadLease::export_stream() const {
  ArrayState& state = live();
  if (state.order() == nullptr) return {};
  auto stream = internal::export_stream(state, ordering_, [&](Stream on) {
    return internal::await_version(state, slot_, version_, on);
  });
  internal::note_view(ordering_, {});
  return internal::value_or_raise(std::move(stream));
}

ReadLease ReadLease::begin(ArrayState& state, std::uint64_t version, std::uint32_t slot,
                           Stream stream) {
  ReadLease lease(state, version, slot);
  internal::check(state.settle());
  lease.wait(stream);
  return lease;
}

ReadLease::~ReadLease() { end_quietly(); }

ArrayState& ReadLease::live() const { return internal::live_state(state_); }

std::uint64_t ReadLease::version() const { return version_; }

std::uint32_t ReadLease::slot() const { return slot_; }

const void* ReadLease::data() const {
  ArrayState& state = live();
  if (state.order() != nullptr) internal::check(ready_read(state, slot_, version_, ordering_));
  return state.slot_data(slot_);
}

void ReadLease::wait(Stream stream) const {
  ArrayState& state = live();
  if (state.order() == nullptr || !stream) return;
  internal::check(wait_read(state, slot_, version_, stream, ordering_));
}

Pin ReadLease::pin() const { return internal::pin_of(live(), slot_, pin_); }

bool ReadLease::release(Stream stream) {
  if (state_ != nullptr && state_->order() != nullptr) {
    end_device(stream, true);
  } else {
    end_quietly();
  }
  return pin_.expired();
}

void ReadLease::end_device(Stream stream, bool may_throw) {
  ArrayState& state = *std::exchange(state_, nullptr);
  // A lease that nothing was ordered for has nothing to wait for.
  if (!ordering_.done && !stream && pin_.expired()) {
    state.end_read(slot_);
    return;
  }
  if (const Pin pin = pin_.lock()) state.end_lease_of(pin);
  const absl::Status status =
      state.end_device_read(slot_, version_, internal::work_end(ordering_, stream), may_throw);
  if (may_throw) internal::check(status);
}

void ReadLease::end_quietly() {
  if (state_ == nullptr) return;
  if (state_->order() != nullptr) {
    internal::quietly([&] { end_device({}, false); });
  } else {
    std::exchange(state_, nullptr)->end_read(slot_);
  }
}

bool ReadLease::released() const noexcept { return state_ == nullptr; }

// ---- WriteLease.

WriteLease::WriteLease(WriteLease&& other) noexcept
    : state_(std::exchange(other.state_, nullptr)),
      version_(other.version_),
      slot_(other.slot_),
      ordering_(other.ordering_),
      pin_(std::move(other.pin_)) {}

WriteLease& WriteLease::operator=(WriteLease&& other) noexcept {
  if (this != &other) {
    internal::quietly([&] { drop(); });
    state_ = std::exchange(other.state_, nullptr);
    version_ = other.version_;
    slot_ = other.slot_;
    ordering_ = other.ordering_;
    pin_ = std::move(other.pin_);
  }
  return *this;
}

void WriteLease::wait_for_view(Stream consumer) const {
  ArrayState& state = live();
  if (state.order() == nullptr) return;
  if (consumer) internal::check(wait_write_view(state, slot_, consumer, ordering_));
  internal::note_view(ordering_, consumer);
}

void WriteLease::wait_on_host() const {
  ArrayState& state = live();
  if (state.order() != nullptr) internal::check(await_write(state, slot_, ordering_));
}

Stream WriteLease::export_stream() const {
  ArrayState& state = live();
  if (state.order() == nullptr) return {};
  auto stream = internal::export_stream(
      state, ordering_, [&](Stream on) { return wait_write_view(state, slot_, on, ordering_); });
  internal::note_view(ordering_, {});
  return internal::value_or_raise(std::move(stream));
}

WriteLease WriteLease::begin(ArrayState& state, std::uint64_t version, std::uint32_t slot,
                             Stream stream, bool copy) {
  WriteLease lease(state, version, slot);
  internal::check(internal::begin_device_write(state, slot, stream, copy, lease.ordering_));
  return lease;
}

WriteLease::~WriteLease() {
  internal::quietly([&] { drop(); });
}

ArrayState& WriteLease::live() const { return internal::live_state(state_); }

std::uint64_t WriteLease::version() const { return version_; }

std::uint32_t WriteLease::slot() const { return slot_; }

void* WriteLease::data() const {
  ArrayState& state = live();
  if (state.order() != nullptr) internal::check(ready_write(state, ordering_));
  return state.slot_data(slot_);
}

void WriteLease::wait(Stream stream) const {
  ArrayState& state = live();
  if (state.order() == nullptr || !stream) return;
  internal::check(wait_write(state, slot_, stream, ordering_));
}

void WriteLease::put(const GpuSource& source) const {
  ArrayState& state = live();
  internal::Importer* const by = internal::value_or_raise(internal::check_source(state, source));
  internal::check(internal::put_from_gpu(state, slot_, source, by, false, ordering_));
}

Pin WriteLease::pin() const {
  ArrayState& state = live();
  internal::check(state.reader().status());  // a pin is a hold, and holds stand in the reader's row
  return internal::pin_of(state, slot_, pin_);
}

std::uint64_t WriteLease::publish(bool allow_pins) { return publish(Stream(), allow_pins); }

std::uint64_t WriteLease::publish(Stream stream, bool allow_pins) {
  ArrayState& state = live();
  if (!state.session().usable_at_once()) internal::check(state.session().usable());
  if (!allow_pins && !pin_.expired()) {
    raise(wire::make_error(
        wire::ErrorCode::kBusy,
        fmt::format("version {} of '{}' cannot be published while views of it live: "
                    "later writes through them would change what readers see",
                    version_, state.name()),
        "Delete the views first, or publish with allow_pins and keep your hands off "
        "them."));
  }
  state_ = nullptr;
  if (state.order() == nullptr) {
    state.end_write(slot_, version_, true);
  } else {
    if (const Pin pin = pin_.lock()) state.end_lease_of(pin);
    internal::check(end_device_write(state, slot_, version_, true, stream, ordering_));
  }
  return version_;
}

void WriteLease::drop(Stream stream) {
  ArrayState* state = std::exchange(state_, nullptr);
  if (state == nullptr || state->forked()) return;
  if (state->order() == nullptr) {
    state->end_write(slot_, version_, false);
  } else {
    if (const Pin pin = pin_.lock()) state->end_lease_of(pin);
    end_device_write(*state, slot_, version_, false, stream, ordering_).IgnoreError();
  }
}

bool WriteLease::ended() const noexcept { return state_ == nullptr; }

}  // namespace memlease
