// Memory for tests of the daemon's core: real sealed memfds that are counted, and calls that fail
// when the test says so. Passes tests/contract/ like the real backend. Not thread-safe; outlives
// what it makes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/core/device_backend.h"
#include "server/core/page_source.h"
#include "server/core/shared_memory.h"

namespace memlease::testing {

class FakeMemory : public server::DeviceBackend, public server::PageSource {
 public:
  // Files have no bytes until somebody writes them: for what makes very many, and fills none.
  void be_sparse() { sparse_ = true; }

  // What exists now.
  struct Live {
    std::uint64_t files = 0;
    std::uint64_t bytes = 0;
    friend bool operator==(const Live&, const Live&) = default;
  };

  static constexpr SegmentSizes kSizes{std::uint64_t{4} << 20, std::uint64_t{512} << 20, 4096};

  std::string device() const override { return "host"; }
  SegmentSizes segment_sizes() const override { return kSizes; }
  std::uint64_t alignment_bytes(std::uint64_t size_bytes) const override;
  absl::StatusOr<std::unique_ptr<server::SharedMemory>> create_segment(
      std::uint64_t size_bytes, wire::ReserveKept kept) override;
  absl::StatusOr<std::unique_ptr<server::SharedMemory>> create_pages(
      std::uint64_t size_bytes, bool daemon_writes, wire::ReserveKept kept) override;

  // For whoever has little there is memory, whatever fails.
  void have_reserve() { has_reserve_ = true; }

  absl::Status has_room(std::uint64_t bytes) override;
  // So many bytes of the daemon's own memory.
  void set_room(std::uint64_t bytes) { room_bytes_ = bytes; }

  // The nth creation from now (1 = the next) finds no memory, and so does every later one.
  void fail_from(std::uint64_t nth) { fail(nth, UINT64_MAX); }
  // The next n.
  void fail_next(std::uint64_t n) { fail(1, n); }
  // That one alone.
  void fail_only(std::uint64_t nth) { fail(nth, nth); }
  void never_fail() { fail(0, 0); }
  // Creations since fail_from(), fail_next(), fail_only() or never_fail(), failed ones too.
  std::uint64_t calls() const { return calls_; }
  const Live& live() const { return live_; }

 private:
  void fail(std::uint64_t first, std::uint64_t last);
  absl::Status count_call(wire::ReserveKept kept);

  bool sparse_ = false;
  bool has_reserve_ = false;
  std::uint64_t room_bytes_ = UINT64_MAX;
  std::uint64_t calls_ = 0;
  std::uint64_t first_failure_ = 0;
  std::uint64_t last_failure_ = 0;
  Live live_;
};

}  // namespace memlease::testing
