#include <memlease/array.h>

#include <utility>

#include "client/api/live_lease.h"
#include "client/api/read_within.h"
#include "client/api/throw.h"
#include "client/api/write_within.h"
#include "client/arrays/array_handle.h"
#include "client/arrays/gpu_copy.h"
#include "client/arrays/open_array.h"
#include "client/ordering/element_layout.h"
#include "client/ordering/strided_copy.h"
#include "fmt/format.h"
#include "wire/error.h"

namespace memlease {

using internal::ArrayHandle;
using internal::ElementLayout;
using internal::OpenArray;
using internal::Pins;
using internal::ReadAttempt;
using internal::ReadOutcome;
using internal::Stop;
using internal::throw_error;
using internal::WriteAttempt;

namespace {

constexpr std::chrono::nanoseconds kNoWait{0};

// A version that will never come counts as taken, so that an event loop is told of it once.
absl::Status read_or_note_loss(internal::ArrayHandle& handle, const ReadOptions& options,
                               std::chrono::nanoseconds default_timeout, ReadAttempt& attempt,
                               const Stop* stop = nullptr) {
  auto status = internal::read_within(handle, options, default_timeout, attempt,
                                      internal::kNoInterrupts, stop);
  if (came_to_nothing(attempt)) handle.note_taken(attempt.version);
  return status;
}

// Whether a try has come to nothing; throws what is wrong beyond that.
bool comes_to_nothing(const absl::Status& status) {
  const wire::ErrorCode code = wire::code_of(status);
  if (code == wire::ErrorCode::kNoFreeSlot || code == wire::ErrorCode::kTimeout) return true;
  internal::check(status);
  return false;
}

}  // namespace

Array::Array(std::shared_ptr<ArrayHandle> handle, bool created) noexcept
    : handle_(std::move(handle)), created_(created) {}

OpenArray& Array::state() const { return handle_->array(); }

std::int64_t Array::count_of(DType dtype) const {
  const wire::ArrayKind& kind = state().kind();
  if (!(dtype == this->dtype())) {
    throw_error(wire::make_error(wire::ErrorCode::kInvalidArgument,
                                 fmt::format("'{}' has elements of {}, not of {}", state().name(),
                                             name_of(this->dtype()), name_of(dtype)),
                                 "Use a std::vector of the array's own element type."));
  }
  std::int64_t count = 1;
  for (const std::int64_t extent : kind.shape) count *= extent;
  return count;
}

const std::string& Array::name() const { return handle_->home_array().name(); }

DType Array::dtype() const {
  const wire::DType dtype = state().kind().dtype;
  return {static_cast<std::uint8_t>(dtype.code), dtype.bits, dtype.lanes};
}

const std::vector<std::int64_t>& Array::shape() const { return state().kind().shape; }

const std::vector<std::int64_t>& Array::strides_bytes() const { return state().strides_bytes(); }

const std::string& Array::device() const { return state().kind().device; }

int Array::device_ordinal() const { return state().device_ordinal(); }

std::uint32_t Array::slots() const { return state().slots(); }
std::uint32_t Array::max_slots() const { return state().kind().max_slots; }

bool Array::persistent() const { return state().kind().lifetime == wire::Lifetime::kPersistent; }

std::uint32_t Array::mode() const { return state().kind().mode; }

bool Array::exclusive_writer() const { return state().kind().writer == wire::Writer::kExclusive; }

const Attributes& Array::attributes() const {
  static const Attributes kNone;
  const auto& attributes = handle_->home_array().facts().rare().attributes;
  return attributes == nullptr ? kNone : *attributes;
}

std::uint32_t Array::owner_uid() const { return state().facts().owner_uid; }

std::uint32_t Array::owner_gid() const { return state().facts().owner_gid; }

std::uint64_t Array::size_bytes() const { return state().facts().slot_bytes; }

bool Array::may_write() const { return state().facts().may_write; }

bool Array::created() const noexcept { return created_; }

std::uint64_t Array::version() const {
  return internal::value_or_throw(handle_->current_version(
      [&] { return state().session().check_interrupt(handle_->interrupt_check()); }));
}

bool Array::has_writer() const {
  internal::check(handle_->use());
  if (handle_->home() != nullptr) internal::check(handle_->home()->use());
  return handle_->home_array().has_writer();
}

Array Array::on(const std::string& device) const {
  internal::check(handle_->use());
  const std::string wanted =
      internal::value_or_throw(state().owner().imports().importers().resolve(device));
  if (wanted == state().kind().device) return *this;
  ArrayHandle& home = handle_->home() == nullptr ? *handle_ : *handle_->home();
  const auto interrupt = [&] {
    return state().session().check_interrupt(handle_->interrupt_check());
  };
  return Array(internal::value_or_throw(home.open_replica(wanted, interrupt)));
}

const std::string& Array::directory() const { return state().session().directory(); }

std::uint64_t Array::id() const { return wire::to_int(handle_->home_array().facts().id); }

ReadLease Array::lease_of(const ReadAttempt& acquired, Stream stream) const {
  handle_->note_taken(acquired.version);
  const std::uint64_t interrupt = handle_->interrupt_check();
  if (state().gpu() == nullptr) return {state(), acquired.version, acquired.slot, interrupt};
  return ReadLease::begin(state(), acquired.version, acquired.slot, interrupt, stream);
}

ReadLease Array::read(const ReadOptions& options) const { return read(options, nullptr); }

ReadLease Array::read(const ReadOptions& options, const Stop* stop) const {
  ReadAttempt attempt = handle_->read_at_once(options.version, options.newer_than);
  if (attempt.outcome != ReadOutcome::kAcquired) {
    internal::check(read_or_note_loss(*handle_, options, kForever, attempt, stop));
  }
  return lease_of(attempt, options.stream);
}

std::optional<ReadLease> Array::try_read(const ReadOptions& options) const {
  ReadAttempt attempt = handle_->read_at_once(options.version, options.newer_than);
  // Loops ask so again and again: an error that nobody sees would cost them a microsecond.
  if (attempt.outcome == ReadOutcome::kNotYet && options.timeout.value_or(kNoWait) <= kNoWait &&
      !options.stream) {
    return std::nullopt;
  }
  if (attempt.outcome != ReadOutcome::kAcquired &&
      comes_to_nothing(read_or_note_loss(*handle_, options, kNoWait, attempt))) {
    return std::nullopt;
  }
  return lease_of(attempt, options.stream);
}

WriteLease Array::lease_of(const WriteAttempt& attempt, Stream stream) const {
  WriteLease lease(state(), attempt.version, attempt.slot, handle_->interrupt_check(),
                   handle_->strict());
  if (state().gpu() != nullptr) lease.begin(stream, false);
  return lease;
}

WriteLease Array::write(const WriteOptions& options) const { return write(options, nullptr); }

WriteLease Array::write(const WriteOptions& options, const Stop* stop) const {
  return write(options, stop, Pins::kLater);
}

WriteLease Array::write(const WriteOptions& options, const Stop* stop, Pins pins) const {
  WriteAttempt attempt;
  internal::check(
      internal::write_within(*handle_, options, internal::kDefaultWriteWait, stop, pins, attempt));
  return lease_of(attempt, options.stream);
}

std::optional<WriteLease> Array::try_write(const WriteOptions& options) const {
  return try_write(options, Pins::kLater);
}

std::optional<WriteLease> Array::try_write(const WriteOptions& options, Pins pins) const {
  WriteAttempt attempt;
  if (comes_to_nothing(internal::write_within(*handle_, options, kNoWait, nullptr, pins, attempt,
                                              internal::IfNoSlot::kSkip))) {
    return std::nullopt;
  }
  return lease_of(attempt, options.stream);
}

WriteLease Array::update(const WriteOptions& options) const { return update(options, nullptr); }

WriteLease Array::update(const WriteOptions& options, const Stop* stop) const {
  return update(options, stop, Pins::kLater);
}

WriteLease Array::update(const WriteOptions& options, const Stop* stop, Pins pins) const {
  WriteAttempt attempt;
  internal::check(
      internal::update_within(*handle_, options, internal::kDefaultWriteWait, stop, pins, attempt));
  WriteLease lease(state(), attempt.version, attempt.slot, handle_->interrupt_check(),
                   handle_->strict());
  lease.used_ = true;  // the current version's bytes are what it is for
  if (state().gpu() != nullptr) lease.begin(options.stream, true);
  return lease;
}

Follower Array::follow(Timeout timeout, std::uint64_t after, Stream stream) const {
  return follow({timeout, after, stream});
}

Follower Array::follow(const FollowOptions& options) const {
  internal::check(handle_->use());
  return Follower(handle_, options);
}

int Array::event_fd() const { return internal::value_or_throw(handle_->event_fd()); }

std::uint64_t Array::get(const Region& region, void* destination, std::uint64_t size_bytes,
                         const ReadOptions& options, const Stop* stop) const {
  const ElementLayout part = internal::part_for_buffer(state(), region, size_bytes);
  const ReadLease lease = read(options, stop);
  lease.copy_to(static_cast<std::byte*>(destination), part, true);
  return lease.version();
}

// What a region leaves out is the current version's, for which nothing is under way any more once a
// host has waited for the slot.
WriteLease Array::begin_put(const ElementLayout& part, const WriteOptions& options,
                            const Stop* stop) const {
  const bool is_whole = element_bytes(part) == element_bytes(internal::layout_of(state().kind()));
  WriteLease lease = is_whole ? write(options, stop) : update(options, stop);
  lease.used_ = true;
  return lease;
}

std::uint64_t Array::put(const Region& region, const void* source, std::uint64_t size_bytes,
                         const WriteOptions& options, const Stop* stop) const {
  const ElementLayout part = internal::part_for_buffer(state(), region, size_bytes);
  const auto* const packed = static_cast<const std::byte*>(source);
  WriteLease lease = begin_put(part, options, stop);
  if (state().gpu() != nullptr) {
    internal::check(
        internal::put_to_device(state(), lease.slot_, part, packed, true, lease.streams_));
  } else {
    internal::copy_in(part, packed, static_cast<std::byte*>(lease.data()));
    state().session().count_copy();
  }
  return lease.publish();
}

std::uint64_t Array::put(const Region& region, const GpuSource& source, const WriteOptions& options,
                         const Stop* stop) const {
  internal::check(handle_->use());
  const auto part =
      internal::value_or_throw(internal::layout_of(state().kind(), state().name(), region));
  auto* const by = internal::value_or_throw(internal::check_source(state(), part, source));
  WriteLease lease = begin_put(part, options, stop);
  internal::check(
      internal::put_from_gpu(state(), lease.slot_, part, source, by, true, lease.streams_));
  return lease.publish();
}

void Array::withdraw() const {
  internal::check(handle_->use());
  if (state().withdrawn()) throw_error(state().gone(false));  // the name may be another array's
  internal::check(state().session().control().withdraw(
      name(), [&] { return state().session().check_interrupt(handle_->interrupt_check()); }));
  state().leave_if_due();
}

void Array::close() const {
  internal::check(handle_->close(
      [&] { return state().session().check_interrupt(handle_->interrupt_check()); }));
}

bool Array::closed() const noexcept { return handle_->closed(); }

}  // namespace memlease
