#include "server/core/name_board.h"

#include <new>
#include <utility>

#include "absl/hash/hash.h"
#include "server/core/access.h"
#include "server/core/late_wakes.h"

namespace memlease::server {
namespace {

// Everybody reads it; nobody is given it for writing, as it is no session's page.
constexpr AccessDomain kEverybody{0, 0, 0444};

}  // namespace

// Abseil's hash begins with another number in each process.
std::size_t NameBoard::place_of(std::string_view key) { return absl::HashOf(key) % kCounts; }

absl::Status NameBoard::make_page() {
  auto page = pages_.create_pages(kPageBytes, true, wire::ReserveKept::kThreeEighths);
  if (!page.ok()) return page.status();
  auto file = files_.add({std::move(*page), wire::FileKind::kBoard, kEverybody, {}}, {});
  if (!file.ok()) return file.status();
  file_ = *file;
  counts_ = new (files_.data({*file_, 0})) wire::HalfWord[kCounts];
  return absl::OkStatus();
}

absl::StatusOr<NameBoard::Count> NameBoard::count_of(std::string_view key) {
  if (!file_) {
    if (auto status = make_page(); !status.ok()) return status;
  }
  const std::size_t place = place_of(key);
  return Count{{*file_, place * sizeof(wire::HalfWord)}, counts_[place].load()};
}

void NameBoard::happened(std::string_view key) {
  if (!file_) return;
  wire::HalfWord& count = counts_[place_of(key)];
  count.fetch_add(1);
  wake_sleepers(count);
}

void NameBoard::wake_all() {
  if (!file_) return;
  for (std::size_t i = 0; i < kCounts; ++i) {
    counts_[i].fetch_add(1);
    wake_sleepers(counts_[i]);
  }
}

}  // namespace memlease::server
