#include <memlease/write_lease.h>

#include <utility>

#include "client/api/live_lease.h"
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
  OpenArray& state = *state_;
  const auto status = internal::begin_gpu_write(state, slot_, stream, copy, streams_);
  if (status.ok()) return;
  internal::quietly([&] { drop(); });
  state.leave_if_due();  // the GPU has failed, and with it what this process had written
  internal::check(status);
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
  const auto part =
      internal::value_or_throw(internal::layout_of(state.kind(), state.name(), region));
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
