// Host memory: sealed memfds that the daemon makes, and that a reader of another uid cannot write.
// Thread-safe (it has no state).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "server/core/device_backend.h"
#include "server/core/page_source.h"
#include "server/core/shared_memory.h"

namespace memlease::server {

class MemfdDeviceBackend : public DeviceBackend, public PageSource {
 public:
  enum class HugePages { kAuto, kNever };
  // Asked before each step of a large allocation: is the memory still there? Tests make it say no.
  using Probe = std::function<bool(std::uint64_t next_step_bytes)>;

  explicit MemfdDeviceBackend(HugePages huge_pages, Probe may_allocate = {});

  std::string device() const override { return "host"; }
  SegmentSizes segment_sizes() const override;
  std::uint64_t alignment_bytes(std::uint64_t size_bytes) const override;
  absl::StatusOr<std::unique_ptr<SharedMemory>> create_segment(std::uint64_t size_bytes) override;
  absl::StatusOr<std::unique_ptr<SharedMemory>> create_pages(std::uint64_t size_bytes,
                                                             bool daemon_writes) override;

  // What a probe found, in words: "2 MiB pages from the pool" or why not.
  const std::string& huge_pages() const { return huge_pages_text_; }
  bool uses_huge_pages() const { return use_huge_pages_; }

 private:
  void probe_huge_pages();

  const Probe may_allocate_;
  bool use_huge_pages_ = false;
  std::string huge_pages_text_;
};

}  // namespace memlease::server
