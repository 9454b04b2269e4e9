// Page files made ahead of time, one of each kind: the first open or create of a process then waits
// for none to be made and zeroed. They are for the whole daemon, in nobody's books until somebody
// has them. Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "server/core/page_source.h"
#include "wire/board.h"
#include "wire/session_pages.h"

namespace memlease::server {

class SparePages final : public PageSource {
 public:
  struct Kind {
    std::uint64_t size_bytes;
    bool daemon_writes;
    bool operator==(const Kind&) const = default;
  };

  // Of `source` are all pages but the spare ones; it outlives this.
  explicit SparePages(PageSource& source) : source_(source) {}

  absl::StatusOr<std::unique_ptr<SharedMemory>> create_pages(std::uint64_t size_bytes,
                                                             bool daemon_writes,
                                                             wire::ReserveKept kept) override {
    const Kind kind{size_bytes, daemon_writes};
    const auto found = std::ranges::find(spares_, kind, &Spare::kind);
    if (found != spares_.end()) {
      found->wanted = true;
      if (found->page != nullptr) return std::move(found->page);
    }
    return source_.create_pages(size_bytes, daemon_writes, kept);
  }

  absl::Status has_room(std::uint64_t bytes) override { return source_.has_room(bytes); }

  // Whether some are to be made now: at first, and after each that was asked for. next() and keep()
  // follow, until there is none.
  bool begin_making() { return next() != nullptr && !std::exchange(making_, true); }
  // What to make; nullptr: no more for now.
  const Kind* next() const {
    const auto found = std::ranges::find(spares_, true, &Spare::wanted);
    return found == spares_.end() ? nullptr : &found->kind;
  }
  void end_making() { making_ = false; }
  // What create_pages() of the source has made for this; nullptr: the next one who asks is told why
  // there is none.
  void keep(const Kind& kind, std::unique_ptr<SharedMemory> page) {
    Spare& spare = *std::ranges::find(spares_, kind, &Spare::kind);
    spare.wanted = false;
    spare.page = std::move(page);
  }

 private:
  struct Spare {
    Kind kind;
    std::unique_ptr<SharedMemory> page;
    bool wanted = true;
  };
  PageSource& source_;
  std::array<Spare, 3> spares_{{{{wire::kSessionPageBytes, false}, nullptr},
                                {{wire::kSessionPageBytes, true}, nullptr},
                                {{wire::kBoardBytes, true}, nullptr}}};
  bool making_ = false;
};

}  // namespace memlease::server
