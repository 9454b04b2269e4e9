#include <memlease/lease.h>

#include <string_view>
#include <utility>

#include "client/api/throw.h"
#include "client/arrays/gpu_copy.h"
#include "client/arrays/gpu_lease.h"
#include "client/arrays/open_array.h"
#include "client/arrays/pin.h"
#include "client/ordering/element_layout.h"
#include "client/ordering/lease_streams.h"
#include "fmt/format.h"
#include "wire/error.h"

namespace memlease {

using internal::OpenArray;
using internal::throw_error;

namespace internal {

void check_view(const OpenArray& array, DType dtype, std::size_t ndim) {
  const wire::ArraySpec& spec = array.spec();
  const wire::DType wanted{static_cast<wire::DTypeCode>(dtype.code), dtype.bits, dtype.lanes};
  if (wanted == spec.dtype && ndim == spec.shape.size()) return;
  throw_error(wire::make_error(
      wire::ErrorCode::kInvalidArgument,
      fmt::format("'{}' is {}: a span of {} with {} dimensions does not fit", spec.name,
                  wire::describe(spec), wire::name_of(wanted), ndim),
      "Use span<T, N> with the array's own element type and number of dimensions."));
}

void throw_not_contiguous(const OpenArray& array) {
  throw_error(wire::make_error(
      wire::ErrorCode::kInvalidArgument,
      fmt::format("'{}' is not in C order without gaps, and a view is", array.spec().name),
      "Use span<T, N>, which has strides."));
}

ElementLayout layout_of_view(const OpenArray& array, const Region& region, DType dtype,
                             std::size_t ndim) {
  ElementLayout part = value_or_throw(layout_of(array.spec(), region));
  const std::size_t dropped = array.spec().shape.size() - part.shape.size();
  if (ndim == part.shape.size()) {
    check_view(array, dtype, ndim + dropped);
    return part;
  }
  throw_error(wire::make_error(
      wire::ErrorCode::kInvalidArgument,
      fmt::format("the region of '{}' ({}) has {} dimensions: a span with {} does not fit",
                  array.spec().name, wire::describe(array.spec()), part.shape.size(), ndim),
      "Use span<T, N> with the region's number of dimensions: an axis with one index is dropped."));
}

const std::vector<std::int64_t>& shape_of(const OpenArray& array) { return array.spec().shape; }

const std::vector<std::int64_t>& strides_bytes_of(const OpenArray& array) {
  return array.strides_bytes();
}

namespace {

// The array of a lease that has not ended, in the process that took it. `end`: what ends one.
OpenArray& live_state(OpenArray* state, std::string_view end) {
  if (state == nullptr) {
    throw_error(wire::make_error(
        wire::ErrorCode::kClosed, fmt::format("this lease has ended: {}", end),
        "Take a new one. What is to outlive a lease is kept by what was made from it: in Python "
        "lease.array or a copy of it, in C++ lease.pin()."));
  }
  if (state->forked()) check(state->session().usable());
  return *state;
}

// One pin a lease is enough: its copies count themselves.
Pin pin_of(OpenArray& state, std::uint32_t slot, const std::byte* data,
           std::weak_ptr<const void>& known) {
  if (Pin pin = known.lock()) return pin;
  Pin pin = make_pin(state, slot, data);
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
  internal::check(state.release_deferred());
  lease.wait(stream);
  return lease;
}

ReadLease::~ReadLease() { end_quietly(); }

OpenArray& ReadLease::live() const {
  return internal::live_state(state_,
                              "it was released, as a loop over a follower does with each lease "
                              "when it goes on to the next");
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

// ---- WriteLease.

WriteLease::WriteLease(OpenArray& state, std::uint64_t version, std::uint32_t slot,
                       std::uint64_t interrupt_check, bool strict) noexcept
    : state_(&state),
      data_(state.write_data(slot)),
      version_(version),
      slot_(slot),
      strict_(strict) {
  streams_.interrupt_check = interrupt_check;
}

WriteLease::WriteLease(WriteLease&& other) noexcept
    : state_(std::exchange(other.state_, nullptr)),
      data_(other.data_),
      version_(other.version_),
      slot_(other.slot_),
      strict_(other.strict_),
      used_(other.used_),
      streams_(other.streams_),
      pin_(std::move(other.pin_)) {}

WriteLease& WriteLease::operator=(WriteLease&& other) noexcept {
  if (this != &other) {
    internal::quietly([&] { drop(); });
    state_ = std::exchange(other.state_, nullptr);
    data_ = other.data_;
    version_ = other.version_;
    slot_ = other.slot_;
    strict_ = other.strict_;
    used_ = other.used_;
    streams_ = other.streams_;
    pin_ = std::move(other.pin_);
  }
  return *this;
}

void WriteLease::wait_for_view(Stream consumer) const {
  const OpenArray& state = live();
  used_ = true;
  if (state.gpu() == nullptr) return;
  if (consumer) internal::check(order_write_view(*state.gpu(), slot_, consumer, streams_));
  internal::note_view(streams_, consumer);
}

void WriteLease::wait_on_host() const {
  const OpenArray& state = live();
  if (state.gpu() != nullptr) internal::check(host_wait_slot(*state.gpu(), slot_, streams_));
}

Stream WriteLease::export_stream() const {
  OpenArray& state = live();
  used_ = true;
  if (state.gpu() == nullptr) return {};
  auto stream = internal::export_stream(*state.gpu(), streams_, [&](Stream on) {
    return order_write_view(*state.gpu(), slot_, on, streams_);
  });
  internal::note_view(streams_, {});
  return internal::value_or_throw(std::move(stream));
}

void WriteLease::begin(Stream stream, bool copy) {
  internal::check(internal::begin_gpu_write(*state_, slot_, stream, copy, streams_));
}

WriteLease::~WriteLease() {
  internal::quietly([&] { drop(); });
}

OpenArray& WriteLease::live() const {
  return internal::live_state(state_, "it was published or dropped");
}

std::uint64_t WriteLease::version() const { return version_; }

std::uint32_t WriteLease::slot() const { return slot_; }

void* WriteLease::data() const {
  const OpenArray& state = live();
  if (state.gpu() != nullptr) internal::check(host_wait_slot_once(*state.gpu(), streams_));
  used_ = true;
  state_->writing().pass_to_this_thread();
  return data_;
}

void WriteLease::wait(Stream stream) const {
  const OpenArray& state = live();
  if (state.gpu() == nullptr || !stream) return;
  internal::check(order_write(*state.gpu(), slot_, stream, streams_));
}

void WriteLease::put(const Region& region, const GpuSource& source) const {
  OpenArray& state = live();
  const auto part = internal::value_or_throw(internal::layout_of(state.spec(), region));
  auto* const by = internal::value_or_throw(internal::check_source(state, part, source));
  used_ = true;
  internal::check(internal::put_from_gpu(state, slot_, part, source, by, false, streams_));
}

Pin WriteLease::pin() const {
  OpenArray& state = live();
  internal::check(
      state.reader([&] { return state.session().check_interrupt(streams_.interrupt_check); })
          .status());  // a pin is a hold, and holds stand in the reader's row
  used_ = true;
  return internal::pin_of(state, slot_, data_, pin_);
}

std::uint64_t WriteLease::publish(Stream stream) {
  const OpenArray& state = live();
  const bool late_writes = !pin_.expired();
  if (late_writes && strict_) {
    throw_error(wire::make_error(
        wire::ErrorCode::kBusy,
        fmt::format("version {} of '{}' cannot be published while pins of it live, as this "
                    "connection is strict",
                    version_, state.name()),
        "Let go of the pins first, or connect without `strict` and MEMLEASE_STRICT."));
  }
  return publish_over(stream, late_writes);
}

std::uint64_t WriteLease::publish_over(Stream stream, bool late_writes) {
  OpenArray& state = live();
  if (!state.session().usable_at_once()) internal::check(state.session().usable());
  const Pin pin = pin_.lock();
  if (late_writes && pin != nullptr) internal::protect_under(state, pin);
  count_use();
  state_ = nullptr;
  if (state.gpu() == nullptr) {
    state.end_write(slot_, version_, true);
    if (pin != nullptr) internal::end_lease_of(state, pin);
  } else {
    if (pin != nullptr) internal::end_lease_of(state, pin);
    internal::check(end_gpu_write(state, slot_, version_, true, stream, streams_));
  }
  return version_;
}

void WriteLease::drop(Stream stream) {
  if (state_ == nullptr || state_->forked()) {
    state_ = nullptr;
    return;
  }
  count_use();
  OpenArray* const state = std::exchange(state_, nullptr);
  const Pin pin = pin_.lock();
  if (state->gpu() == nullptr) {
    state->end_write(slot_, version_, false);
    if (pin != nullptr) internal::end_lease_of(*state, pin);
  } else {
    if (pin != nullptr) internal::end_lease_of(*state, pin);
    end_gpu_write(*state, slot_, version_, false, stream, streams_).IgnoreError();
  }
}

void WriteLease::count_use() const noexcept {
  if (used_) return;
  state_->session().view_counts().empty_writes.fetch_add(1, std::memory_order_relaxed);
  state_->writing().slot_writer()->count_empty();
}

bool WriteLease::ended() const noexcept { return state_ == nullptr; }

}  // namespace memlease
