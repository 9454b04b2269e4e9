#include "client/ordering/lease_streams.h"

#include <chrono>

#include "absl/functional/function_ref.h"
#include "client/ordering/look_pauses.h"
#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;
using Clock = std::chrono::steady_clock;

void note(LeaseStreams& streams, Stream stream) {
  streams.ambiguous = streams.ambiguous || (streams.stream && streams.stream != stream);
  streams.stream = stream;
  streams.ordered = true;
  streams.over = false;
}

// Calls `behind` with each stream that work of the lease itself may be under way on.
absl::Status for_each_own(const LeaseStreams& streams,
                          absl::FunctionRef<absl::Status(Stream)> behind) {
  for (const Stream own : {streams.stream, streams.view_stream}) {
    if (!own) continue;
    if (auto status = behind(own); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status host_wait_deadline(GpuArray& array, std::uint64_t version, const LeaseStreams& streams,
                                absl::FunctionRef<absl::StatusOr<bool>()> complete,
                                Clock::time_point deadline) {
  const auto look = [&]() -> absl::StatusOr<bool> {
    auto done = complete();
    if (!done.ok()) return done;
    if (array.poisoned(version)) {
      return wire::make_error(ErrorCode::kProducerDied,
                              fmt::format("the writer of '{}' died before version {} was complete",
                                          array.name(), version),
                              "Wait for the next version: read(newer_than=...).");
    }
    if (*done || Clock::now() < deadline) return done;
    return wire::make_error(
        ErrorCode::kTimeout,
        fmt::format("what was done on '{}' before has not ended on the GPU within {} s",
                    array.name(), array.host_wait_limit().count() / 1000),
        "See who holds it (memleasectl holders), or let the operator raise the daemon's "
        "event_wait_timeout_s.");
  };
  return array.noted(host_wait_complete(array.session(), streams, look));
}

// The host waits in place of the stream.
absl::Status host_wait_bounded(GpuArray& array, std::uint64_t version, Stream stream,
                               const LeaseStreams& streams,
                               absl::FunctionRef<absl::StatusOr<bool>()> complete) {
  // As a wait of the stream would be refused.
  if (auto status = array.importer().check_stream(stream); !status.ok()) return array.noted(status);
  return host_wait_deadline(array, version, streams, complete,
                            Clock::now() + array.host_wait_limit());
}

}  // namespace

absl::Status host_wait_complete(Session& session, const LeaseStreams& streams,
                                absl::FunctionRef<absl::StatusOr<bool>()> complete) {
  for (LookPauses looks;; looks.pause()) {
    auto done = complete();
    if (!done.ok()) return done.status();
    if (*done) return absl::OkStatus();
    if (auto status = session.check_wait(streams.interrupt_check); !status.ok()) return status;
  }
}

absl::Status stream_wait_version(GpuArray& array, std::uint32_t slot, std::uint64_t version,
                                 Stream stream, const LeaseStreams& streams) {
  ReaderOrder& order = array.order()->reader();
  const bool by_host = array.host_waits() || array.order()->versions().by_host();
  if (!by_host) return array.noted(order.stream_wait_version(slot, version, stream));
  return host_wait_bounded(array, version, stream, streams,
                           [&] { return order.version_complete(slot, version); });
}

absl::Status stream_wait_slot(GpuArray& array, Stream stream, const LeaseStreams& streams) {
  WriterOrder& order = array.order()->writer();
  if (order.by_host()) {
    array.note_by_host();
  } else if (!array.host_waits()) {
    return array.noted(order.stream_wait_slot(stream));
  }
  return host_wait_bounded(array, 0, stream, streams, [&] { return order.slot_free(); });
}

// Once it is one of ours it stays that one, so that views of the lease find each other's work
// there.
absl::StatusOr<Stream> export_stream(GpuArray& array, LeaseStreams& streams,
                                     absl::FunctionRef<absl::Status(Stream)> wait) {
  constexpr std::uintptr_t kPerThread = 2;
  if (!streams.view_stream) {
    const Stream own = end_of(streams, {});
    if (own.handle() > kPerThread) return own;
    auto stream = array.importer().export_stream();
    if (!stream.ok()) return stream;
    streams.view_stream = *stream;
  }
  if (auto status = wait(streams.view_stream); !status.ok()) return status;
  return streams.view_stream;
}

Stream end_of(const LeaseStreams& streams, Stream said) {
  if (said) return said;
  return streams.ambiguous ? Stream() : streams.stream;
}

// ---- Reading.

absl::Status order_read(GpuArray& array, std::uint32_t slot, std::uint64_t version, Stream stream,
                        LeaseStreams& streams) {
  auto status = stream_wait_version(array, slot, version, stream, streams);
  if (status.ok()) note(streams, stream);
  return status;
}

absl::Status host_wait_version_once(GpuArray& array, std::uint32_t slot, std::uint64_t version,
                                    LeaseStreams& streams) {
  return streams.ordered ? absl::OkStatus() : host_wait_version(array, slot, version, streams);
}

absl::Status host_wait_version(GpuArray& array, std::uint32_t slot, std::uint64_t version,
                               LeaseStreams& streams) {
  auto status = host_wait_deadline(
      array, version, streams,
      [&] { return array.order()->reader().version_complete(slot, version); },
      Clock::time_point::max());
  streams.ordered = streams.ordered || status.ok();
  return status;
}

// ---- Writing.

absl::Status order_write(GpuArray& array, std::uint32_t slot, Stream stream,
                         LeaseStreams& streams) {
  auto status = order_write_view(array, slot, stream, streams);
  if (status.ok()) note(streams, stream);
  return status;
}

absl::Status order_write_view(GpuArray& array, std::uint32_t slot, Stream stream,
                              const LeaseStreams& streams) {
  auto status = stream_wait_slot(array, stream, streams);
  if (!status.ok()) return status;
  const auto usable = [&] { return array.session().check_wait(streams.interrupt_check); };
  return for_each_own(streams, [&](Stream own) {
    return own == stream ? absl::OkStatus()
                         : array.order()->writer().stream_wait_own(slot, own, stream, usable);
  });
}

absl::Status host_wait_slot_once(GpuArray& array, LeaseStreams& streams) {
  if (streams.ordered) return absl::OkStatus();
  auto status = host_wait_complete(array.session(), streams,
                                   [&] { return array.order()->writer().slot_free(); });
  streams.ordered = status.ok();
  return array.noted(status);
}

absl::Status host_wait_slot(GpuArray& array, std::uint32_t slot, LeaseStreams& streams) {
  const auto free = [&] { return array.order()->writer().slot_free(); };
  const auto usable = [&] { return array.session().check_wait(streams.interrupt_check); };
  auto status = for_each_own(streams, [&](Stream own) {
    auto recorded = array.order()->writer().record_own(slot, own, usable);
    return recorded.ok() ? host_wait_complete(array.session(), streams, free) : recorded;
  });
  if (status.ok()) status = host_wait_complete(array.session(), streams, free);
  streams.ordered = streams.ordered || status.ok();
  return array.noted(status);
}

}  // namespace memlease::internal
