// Host memory: sealed memfds that the daemon makes, and that a reader of another uid cannot write.
// Thread-safe.
#pragma once

#include <linux/memfd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "server/core/device_backend.h"
#include "server/core/page_source.h"
#include "server/core/shared_memory.h"
#include "wire/memory_ceiling.h"
#include "wire/unique_fd.h"

namespace memlease::server {

class OpenFileWatch;

class MemfdDeviceBackend : public DeviceBackend, public PageSource {
 public:
  enum class HugePages { kAuto, kNever };
  // Asked before each step of an allocation: how much may be taken beside what there is? The kernel
  // does not refuse what is too much, but kills somebody.
  using Room = std::function<wire::MemoryBound(std::uint64_t wanted_bytes, std::uint64_t held_bytes,
                                               wire::ReserveKept kept)>;

  // What memfd_create() is told of huge pages. Tests leave it out, so that any system has some.
  static constexpr unsigned kHugePageFlags = MFD_HUGETLB | MFD_HUGE_2MB;

  explicit MemfdDeviceBackend(HugePages huge_pages, Room room = {},
                              unsigned huge_page_flags = kHugePageFlags);

  std::string device() const override { return "host"; }
  SegmentSizes segment_sizes() const override;
  std::uint64_t alignment_bytes(std::uint64_t size_bytes) const override;
  absl::StatusOr<std::unique_ptr<SharedMemory>> create_segment(std::uint64_t size_bytes,
                                                               wire::ReserveKept kept) override;
  absl::StatusOr<std::unique_ptr<SharedMemory>> create_pages(std::uint64_t size_bytes,
                                                             bool daemon_writes,
                                                             wire::ReserveKept kept) override;

  absl::Status has_room(std::uint64_t bytes) override;

  // Whether those who may write a file can be kept from taking pages out of it, which makes whoever
  // looks at it wait: for that it is immutable (ioctl_iflags(2)). It can on Linux 6.0 or later,
  // with CAP_LINUX_IMMUTABLE.
  static bool keeps_pages();
  // What a probe found, in words: "2 MiB pages from the pool" or why not.
  const std::string& huge_pages() const { return huge_pages_text_; }
  bool uses_huge_pages() const { return use_huge_pages_; }
  // Whether the last segment that should have had some got ordinary pages instead.
  bool lacks_huge_pages() const { return lacks_huge_pages_; }

 private:
  using Held = std::atomic<std::uint64_t>;  // bytes of files, but for those of huge pages
  class HeldBytes;
  class Memfd;
  void probe_huge_pages();

  enum class Mapping { kNone, kReadOnly, kWritable };
  absl::StatusOr<std::unique_ptr<SharedMemory>> make(const char* name, std::uint64_t size_bytes,
                                                     unsigned flags, Mapping mapping,
                                                     wire::ReserveKept kept);
  absl::Status commit(int fd, std::uint64_t size_bytes, unsigned flags, Mapping mapping,
                      wire::ReserveKept kept);
  // `others_bytes`: of those that are wanted.
  absl::Status look_for_room(std::uint64_t wanted_bytes, std::uint64_t held_bytes,
                             std::uint64_t others_bytes, wire::ReserveKept kept) const;

  // Its entries are found without waiting for who looks into /proc, as long as it is open.
  const wire::UniqueFd own_files_;
  const Room room_;
  const std::shared_ptr<OpenFileWatch> open_files_;
  const std::shared_ptr<Held> held_ = std::make_shared<Held>(0);
  const unsigned huge_page_flags_;
  std::atomic<std::uint64_t> committing_{0};  // that all threads have yet to allocate
  bool use_huge_pages_ = false;
  std::string huge_pages_text_;
  std::atomic<bool> lacks_huge_pages_{false};
};

}  // namespace memlease::server
