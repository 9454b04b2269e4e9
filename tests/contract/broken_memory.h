// Memory with exactly one flaw: what the contract's checks must find.
#pragma once

#include <memory>
#include <string>

#include "server/core/device_backend.h"
#include "server/core/page_source.h"
#include "server/core/shared_memory.h"

namespace memlease::testing {

enum class Flaw {
  kNone,  // so that what is found is due to the flaw alone
  kNoSeals,
  kOpenMode,        // 0777
  kWritableExport,  // where a read-only one was asked for
  kSurvivesExec,
  kNotZeroed,
  kNotCommitted,
  kDaemonMapsAll,  // a client's page for writing, a segment at all
  kLeaksDescriptor,
  kNeverChanges,  // a client's page, where the daemon must
  kStaysOpen,     // can be written after such a change
  kSeesNoWriter,
  kSeesWriters,  // where there are none
  kNeverRevoked,
  kAlwaysRevoked,
};

class BrokenMemory : public server::DeviceBackend, public server::PageSource {
 public:
  explicit BrokenMemory(Flaw flaw) : flaw_(flaw) {}

  std::string device() const override { return "host"; }
  SegmentSizes segment_sizes() const override { return {4096, 4096, 4096}; }
  std::uint64_t alignment_bytes(std::uint64_t) const override { return 256; }
  absl::StatusOr<std::unique_ptr<server::SharedMemory>> create_segment(
      std::uint64_t size_bytes, wire::ReserveKept kept) override;
  absl::StatusOr<std::unique_ptr<server::SharedMemory>> create_pages(
      std::uint64_t size_bytes, bool daemon_writes, wire::ReserveKept kept) override;
  absl::Status has_room(std::uint64_t /*bytes*/) override { return absl::OkStatus(); }

 private:
  std::unique_ptr<server::SharedMemory> make(std::uint64_t size_bytes, int protection) const;
  const Flaw flaw_;
};

}  // namespace memlease::testing
