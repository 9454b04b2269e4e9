// A session page made ahead of time: the first open of a process then waits for no 64 KiB to be
// made and zeroed. There is one for the whole daemon, in nobody's books until somebody has it. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "server/core/page_source.h"
#include "wire/session_pages.h"

namespace memlease::server {

class SparePage final : public PageSource {
 public:
  // Of `source` are all pages but the spare one; it outlives this.
  explicit SparePage(PageSource& source) : source_(source) {}

  absl::StatusOr<std::unique_ptr<SharedMemory>> create_pages(std::uint64_t size_bytes,
                                                             bool daemon_writes,
                                                             wire::ReserveKept kept) override {
    if (size_bytes == wire::kSessionPageBytes && !daemon_writes) {
      wanted_ = true;
      if (spare_ != nullptr) return std::move(spare_);
    }
    return source_.create_pages(size_bytes, daemon_writes, kept);
  }

  absl::Status has_room(std::uint64_t bytes) override { return source_.has_room(bytes); }

  // Whether one is to be made now: at first, and after each that was asked for. keep() follows.
  bool begin_making() { return wanted_ && !std::exchange(making_, true); }
  // What create_pages() of the source has made for this; nullptr: the next one who asks is told why
  // there is none.
  void keep(std::unique_ptr<SharedMemory> page) {
    wanted_ = making_ = false;
    spare_ = std::move(page);
  }

 private:
  PageSource& source_;
  std::unique_ptr<SharedMemory> spare_;
  bool wanted_ = true;
  bool making_ = false;
};

}  // namespace memlease::server
