#include "server/core/segment_pool.h"

#include <algorithm>
#include <cassert>

#include "fmt/format.h"
#include "proto/wire/error.h"

namespace memlease::server {
namespace {

constexpr std::uint64_t kPage = 4096;
std::uint64_t round_to_pages(std::uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

SegmentPool::SegmentPool(FileTable& files, DeviceBackend& backend, const Limits& limits)
    : files_(files), backend_(backend), limits_(limits) {}

absl::StatusOr<wire::FileRange> SegmentPool::allocate(const AccessDomain& domain,
                                                      std::uint64_t size_bytes) {
  const std::uint64_t bytes = std::max<std::uint64_t>(size_bytes, 1);
  const std::uint64_t alignment = backend_.alignment_bytes(bytes);
  Class& segments = classes_[domain];
  for (Segment& segment : segments) {
    const bool was_empty = segment.arena.empty();
    if (const auto offset = segment.arena.allocate(bytes, alignment)) {
      if (was_empty) warm_bytes_ -= segment.arena.size_bytes();
      return wire::FileRange{segment.file, *offset};
    }
  }
  std::uint64_t class_bytes = 0;
  for (const Segment& segment : segments) class_bytes += segment.arena.size_bytes();
  const std::uint64_t grown = std::clamp(class_bytes, kFirstSegmentBytes, kMaxSegmentBytes);
  auto segment = add_segment(domain, std::max(grown, round_to_pages(bytes)));
  // Under a tight limit, the bytes that are really needed.
  if (!segment.ok()) segment = add_segment(domain, round_to_pages(bytes));
  if (!segment.ok()) return segment.status();
  return wire::FileRange{(*segment)->file, *(*segment)->arena.allocate(bytes, alignment)};
}

void SegmentPool::free(const AccessDomain& domain, wire::FileRange at) {
  Class& segments = classes_.at(domain);
  const auto segment = std::find_if(segments.begin(), segments.end(),
                                    [&](const Segment& s) { return s.file == at.file; });
  assert(segment != segments.end());
  segment->arena.free(at.offset);
  if (!segment->arena.empty()) return;
  segment->emptied = ++emptied_;
  warm_bytes_ += segment->arena.size_bytes();
  while (warm_bytes_ > limits_.warm_bytes && return_oldest()) {
  }
}

absl::Status SegmentPool::make_room(std::uint64_t size_bytes) {
  if (limits_.memory_bytes == 0) return absl::OkStatus();
  // What can never fit costs nobody their warm segments.
  if (memory_bytes_ - warm_bytes_ + size_bytes <= limits_.memory_bytes) {
    while (memory_bytes_ + size_bytes > limits_.memory_bytes) return_oldest();
    return absl::OkStatus();
  }
  return wire::make_error(
      wire::ErrorCode::kOutOfMemory,
      fmt::format("{} bytes do not fit: {} of the daemon's limit of {} bytes are taken", size_bytes,
                  memory_bytes_, limits_.memory_bytes),
      "Withdraw arrays (memleasectl ls, memleasectl holders), or raise memory_limit_bytes.");
}

absl::StatusOr<SegmentPool::Segment*> SegmentPool::add_segment(const AccessDomain& domain,
                                                               std::uint64_t size_bytes) {
  if (auto status = make_room(size_bytes); !status.ok()) return status;
  auto memory = backend_.create_segment(size_bytes);
  if (!memory.ok()) return memory.status();
  auto id = files_.add({std::move(*memory), wire::FileKind::kSegment, domain, {}});
  if (!id.ok()) return id.status();
  memory_bytes_ += size_bytes;
  Class& segments = classes_[domain];
  segments.push_back(Segment{*id, Arena(size_bytes)});
  return &segments.back();
}

bool SegmentPool::return_oldest() {
  Class* oldest_class = nullptr;
  Class::iterator oldest;
  for (auto& [domain, segments] : classes_) {
    for (auto it = segments.begin(); it != segments.end(); ++it) {
      if (!it->arena.empty()) continue;
      if (oldest_class == nullptr || it->emptied < oldest->emptied) {
        oldest_class = &segments;
        oldest = it;
      }
    }
  }
  if (oldest_class == nullptr) return false;
  const std::uint64_t bytes = oldest->arena.size_bytes();
  files_.remove(oldest->file);
  oldest_class->erase(oldest);
  memory_bytes_ -= bytes;
  warm_bytes_ -= bytes;
  return true;
}

}  // namespace memlease::server
