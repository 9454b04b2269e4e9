#include "client/core/device_lease.h"

#include <chrono>

#include "absl/cleanup/cleanup.h"
#include "absl/functional/function_ref.h"
#include "client/core/backoff.h"
#include "client/core/device_copy.h"
#include "fmt/format.h"
#include "proto/wire/error.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;
using Clock = std::chrono::steady_clock;

void note(Ordering& ordering, Stream stream) {
  ordering.many = ordering.many || (ordering.stream && ordering.stream != stream);
  ordering.stream = stream;
  ordering.done = true;
}

// Calls `behind` with each stream that work of the lease itself may be under way on.
absl::Status for_each_own(const Ordering& ordering,
                          absl::FunctionRef<absl::Status(Stream)> behind) {
  for (const Stream own : {ordering.stream, ordering.exported}) {
    if (!own) continue;
    if (auto status = behind(own); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status host_wait_until(ArrayState& array, std::uint64_t version,
                             absl::FunctionRef<absl::StatusOr<bool>()> complete,
                             Clock::time_point deadline) {
  for (Backoff backoff;; backoff.pause()) {
    const auto done = complete();
    if (!done.ok()) return done.status();
    const SlotReader* reader = array.reader_if_subscribed();
    if (version != 0 && reader != nullptr && reader->poisoned(version)) {
      return wire::make_error(ErrorCode::kProducerDied,
                              fmt::format("the writer of '{}' died before version {} was complete",
                                          array.name(), version),
                              "Wait for the next version: read(newer_than=...).");
    }
    if (*done) return absl::OkStatus();
    if (auto status = array.session().usable(); !status.ok()) return status;
    if (auto status = array.session().check_interrupt(); !status.ok()) return status;
    if (Clock::now() >= deadline) {
      return wire::make_error(
          ErrorCode::kTimeout,
          fmt::format("what was done on '{}' before has not ended on the GPU within {} s",
                      array.name(), array.opened().host_waits.count() / 1000),
          "See who holds it (memleasectl holders), or let the operator raise the daemon's "
          "event_wait_timeout_s.");
    }
  }
}

// The host waits as the daemon's operator wants it.
absl::Status bounded_wait(ArrayState& array, std::uint64_t version, Stream stream,
                          absl::FunctionRef<absl::StatusOr<bool>()> complete) {
  // As a wait of the stream would be refused.
  if (auto status = array.order()->importer().check_stream(stream); !status.ok()) return status;
  return host_wait_until(array, version, complete, Clock::now() + array.opened().host_waits);
}

bool host_waits(const ArrayState& array) { return array.opened().host_waits.count() != 0; }

}  // namespace

absl::Status host_wait(ArrayState& array, std::uint64_t version,
                       absl::FunctionRef<absl::StatusOr<bool>()> complete) {
  return host_wait_until(array, version, complete, Clock::time_point::max());
}

absl::Status await_version(ArrayState& array, std::uint32_t slot, std::uint64_t version,
                           Stream stream) {
  DeviceOrder& order = *array.order();
  if (!host_waits(array)) return order.await_version(slot, version, stream);
  return bounded_wait(array, version, stream,
                      [&] { return order.version_complete(slot, version); });
}

absl::Status await_slot(ArrayState& array, Stream stream) {
  DeviceOrder& order = *array.order();
  if (!host_waits(array)) return order.await_slot(stream);
  return bounded_wait(array, 0, stream, [&] { return order.slot_free(); });
}

// Once it is one of ours it stays that one, so that views of the lease find each other's work
// there.
absl::StatusOr<Stream> export_stream(ArrayState& array, Ordering& ordering,
                                     absl::FunctionRef<absl::Status(Stream)> wait) {
  constexpr std::uintptr_t kPerThread = 2;
  if (!ordering.exported) {
    const Stream own = end_of(ordering, {});
    if (own.handle() > kPerThread) return own;
    auto stream = array.order()->importer().export_stream();
    if (!stream.ok()) return stream;
    ordering.exported = *stream;
  }
  if (auto status = wait(ordering.exported); !status.ok()) return status;
  return ordering.exported;
}

Stream end_of(const Ordering& ordering, Stream said) {
  if (said) return said;
  return ordering.many ? Stream() : ordering.stream;
}

// ---- Reading.

absl::Status wait_read(ArrayState& array, std::uint32_t slot, std::uint64_t version, Stream stream,
                       Ordering& ordering) {
  auto status = await_version(array, slot, version, stream);
  if (status.ok()) note(ordering, stream);
  return status;
}

absl::Status ready_read(ArrayState& array, std::uint32_t slot, std::uint64_t version,
                        Ordering& ordering) {
  return ordering.done ? absl::OkStatus() : await_read(array, slot, version, ordering);
}

absl::Status await_read(ArrayState& array, std::uint32_t slot, std::uint64_t version,
                        Ordering& ordering) {
  auto status =
      host_wait(array, version, [&] { return array.order()->version_complete(slot, version); });
  ordering.done = ordering.done || status.ok();
  return status;
}

// ---- Writing.

absl::Status wait_write(ArrayState& array, std::uint32_t slot, Stream stream, Ordering& ordering) {
  auto status = wait_write_view(array, slot, stream, ordering);
  if (status.ok()) note(ordering, stream);
  return status;
}

absl::Status wait_write_view(ArrayState& array, std::uint32_t slot, Stream stream,
                             const Ordering& ordering) {
  auto status = await_slot(array, stream);
  if (!status.ok()) return status;
  return for_each_own(ordering, [&](Stream own) {
    return own == stream ? absl::OkStatus() : array.order()->await_own(slot, own, stream);
  });
}

absl::Status ready_write(ArrayState& array, Ordering& ordering) {
  if (ordering.done) return absl::OkStatus();
  auto status = host_wait(array, 0, [&] { return array.order()->slot_free(); });
  ordering.done = status.ok();
  return status;
}

absl::Status await_write(ArrayState& array, std::uint32_t slot, Ordering& ordering) {
  const auto free = [&] { return array.order()->slot_free(); };
  auto status = for_each_own(ordering, [&](Stream own) {
    auto recorded = array.order()->record_own(slot, own);
    return recorded.ok() ? host_wait(array, 0, free) : recorded;
  });
  if (status.ok()) status = host_wait(array, 0, free);
  ordering.done = ordering.done || status.ok();
  return status;
}

absl::Status begin_device_write(ArrayState& array, std::uint32_t slot, Stream stream, bool copy,
                                Ordering& ordering) {
  if (auto status = array.order()->collect(*array.writer_if_any(), slot); !status.ok()) {
    return status;
  }
  const wire::Publication current = array.writer_if_any()->current();
  if (copy && current.slot != slot) {
    return copy_within_device(array, current.slot, slot, stream, ordering);
  }
  return stream ? wait_write(array, slot, stream, ordering) : absl::OkStatus();
}

absl::Status end_device_write(ArrayState& array, std::uint32_t slot, std::uint64_t version,
                              bool publish, Stream said, Ordering& ordering) {
  bool published = false;
  bool idle = false;  // is nothing under way that is not recorded? Else the device is waited for
  const absl::Cleanup end = [&] {
    if (!idle && !array.order()->await_all(end_of(ordering, said))) array.keep_for_settle(slot);
    array.end_write(slot, version, published);
  };
  // A version that nobody has written still comes behind the slot's earlier users. What is given up
  // untouched leaves everything as it was.
  absl::Status status;
  if (!ordering.done && publish) {
    status = said ? wait_write(array, slot, said, ordering) : ready_write(array, ordering);
  }
  if (status.ok() && ordering.done) {
    status = array.order()->record_write(slot, version, work_end(ordering, said));
  }
  idle = status.ok() || !ordering.done;
  published = publish && status.ok();
  return status;
}

}  // namespace memlease::internal
