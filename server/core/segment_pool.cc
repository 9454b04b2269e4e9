#include "server/core/segment_pool.h"

#include <algorithm>
#include <cassert>

#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

SegmentPool::SegmentPool(FileTable& files, DeviceBackend& backend, Quota& quota,
                         const Limits& limits)
    : files_(files),
      backend_(backend),
      quota_(quota),
      sizes_(backend.segment_sizes()),
      limits_(limits) {}

// Whole multiples of the alignment: else each place leaves a gap behind it that the next search
// looks at and cannot use.
std::uint64_t SegmentPool::place_bytes(std::uint64_t size_bytes) const {
  return round_up(std::max<std::uint64_t>(size_bytes, 1), backend_.alignment_bytes(size_bytes));
}

std::optional<wire::FileRange> SegmentPool::place(const AccessDomain& domain,
                                                  std::uint64_t size_bytes) {
  const std::uint64_t bytes = place_bytes(size_bytes);
  for (Segment& segment : classes_[domain]) {
    const bool was_empty = segment.arena.empty();
    if (const auto offset = segment.arena.allocate(bytes, backend_.alignment_bytes(bytes))) {
      if (was_empty) {
        warm_bytes_ -= segment.arena.size_bytes();
        segment.warm = {};
      }
      return wire::FileRange{segment.file, *offset};
    }
  }
  return std::nullopt;
}

// As much as the class has already, within bounds: a class doubles.
std::uint64_t SegmentPool::next_segment_bytes(const AccessDomain& domain,
                                              std::uint64_t needed_bytes) const {
  std::uint64_t class_bytes = 0;
  if (const auto segments = classes_.find(domain); segments != classes_.end()) {
    for (const Segment& segment : segments->second) class_bytes += segment.arena.size_bytes();
  }
  return std::max(std::clamp(class_bytes, sizes_.first, sizes_.most), needed_bytes);
}

absl::StatusOr<Charge> SegmentPool::charge_descriptor(uid_t uid) {
  if (!backend_.takes_descriptors()) return Charge();
  auto charge = files_.charge(uid);
  while (!charge.ok() && files_.going_of(uid) == 0 && return_oldest(&quota_.account(uid))) {
    charge = files_.charge(uid);
  }
  return charge;
}

// When what is on its way has gone, and so much beside it.
bool SegmentPool::fits_later(const Account& account, std::uint64_t size_bytes,
                             std::uint64_t beside_bytes) const {
  const auto found = going_.bytes_of.find(account.uid());
  const std::uint64_t going = found == going_.bytes_of.end() ? 0 : found->second;
  return account.may_spend_without(Resource::kSegmentBytes, size_bytes, going + beside_bytes);
}

absl::StatusOr<Charge> SegmentPool::charge_bytes(uid_t uid, std::uint64_t size_bytes) {
  const Account& account = quota_.account(uid);
  auto charge = quota_.charge(uid, Resource::kSegmentBytes, size_bytes);
  // What can never fit costs nobody their warm segments.
  if (!charge.ok() && fits_later(account, size_bytes, account.used(Resource::kWarmBytes))) {
    while (!charge.ok() && !fits_later(account, size_bytes) && return_oldest(&account)) {
      charge = quota_.charge(uid, Resource::kSegmentBytes, size_bytes);
    }
  }
  if (!charge.ok()) return charge;
  if (auto status = make_room(size_bytes); !status.ok()) return status;
  return charge;
}

absl::StatusOr<SegmentPool::Growth> SegmentPool::reserve(const AccessDomain& domain,
                                                         std::uint64_t size_bytes,
                                                         std::uint64_t count) {
  const std::uint64_t needed = round_up(count * place_bytes(size_bytes), sizes_.unit);
  auto descriptor = charge_descriptor(domain.uid);
  if (!descriptor.ok()) return descriptor.status();
  const wire::ReserveKept kept = files_.reserve_kept(domain.uid, needed);
  // Where a whole new segment would not fit, what is needed may.
  std::uint64_t wanted = next_segment_bytes(domain, needed);
  auto bytes = charge_bytes(domain.uid, wanted);
  if (!bytes.ok()) {
    wanted = needed;
    bytes = charge_bytes(domain.uid, wanted);
    if (!bytes.ok()) return bytes.status();
  }
  memory_bytes_ += wanted;
  growing_.emplace(++last_growth_, Reservation{wanted, *std::move(descriptor), *std::move(bytes)});
  return Growth{backend_.device(), domain, wanted, needed, kept, last_growth_};
}

absl::StatusOr<std::unique_ptr<SharedMemory>> SegmentPool::make(DeviceBackend& backend,
                                                                Growth& growth) {
  if (growth.size_bytes != growth.needed_bytes) {
    auto memory = backend.create_segment(growth.size_bytes, wire::ReserveKept::kAll);
    const bool is_short =
        !memory.ok() && wire::code_of(memory.status()) == wire::ErrorCode::kOutOfMemory;
    if (!is_short) return memory;
    growth.size_bytes = growth.needed_bytes;
  }
  return backend.create_segment(growth.size_bytes, growth.kept);
}

absl::Status SegmentPool::add(const Growth& growth,
                              absl::StatusOr<std::unique_ptr<SharedMemory>> memory) {
  auto reservation = std::move(growing_.extract(growth.number).mapped());
  absl::Status status = memory.status();
  const std::uint64_t less_bytes = reservation.size_bytes - growth.size_bytes;
  memory_bytes_ -= less_bytes;
  reservation.bytes.give_back(less_bytes);
  if (status.ok()) {
    const auto id =
        files_.add_charged({std::move(*memory), wire::FileKind::kSegment, growth.domain, {}},
                           growth.domain.uid, std::move(reservation.descriptor));
    if (id.ok()) {
      classes_[growth.domain].push_back(
          Segment{*id, Arena(growth.size_bytes), 0, std::move(reservation.bytes), {}});
      keep_warm(classes_[growth.domain].back(), growth.domain.uid);
      return absl::OkStatus();
    }
    status = id.status();
  }
  memory_bytes_ -= growth.size_bytes;
  return status;
}

void SegmentPool::free(const AccessDomain& domain, wire::FileRange at, std::uint64_t size_bytes) {
  Class& segments = classes_.at(domain);
  const auto segment = std::find_if(segments.begin(), segments.end(),
                                    [&](const Segment& s) { return s.file == at.file; });
  assert(segment != segments.end());
  segment->arena.free(at.offset, place_bytes(size_bytes));
  if (!segment->arena.empty()) return;
  keep_warm(*segment, domain.uid);
  return_surplus();
}

void SegmentPool::keep_warm(Segment& segment, uid_t uid) {
  segment.emptied = ++emptied_;
  segment.warm = quota_.account(uid).empty_charge(Resource::kWarmBytes);
  segment.warm.add_anyway(segment.arena.size_bytes());
  warm_bytes_ += segment.arena.size_bytes();
}

void SegmentPool::return_surplus() {
  while (warm_bytes_ > limits_.warm_bytes) return_oldest();
}

void SegmentPool::set_limits(const Limits& limits) {
  limits_ = limits;
  while (limits_.memory_bytes != 0 && memory_bytes() - going_.bytes > limits_.memory_bytes &&
         return_oldest()) {
  }
  return_surplus();
}

absl::Status SegmentPool::make_room(std::uint64_t size_bytes) {
  const auto fits = [&](std::uint64_t without_bytes) {
    return memory_bytes() - without_bytes + size_bytes <= limits_.memory_bytes;
  };
  if (limits_.memory_bytes == 0) return absl::OkStatus();
  // What can never fit costs nobody their warm segments.
  if (fits(warm_bytes_ + going_.bytes)) {
    while (!fits(going_.bytes) && return_oldest()) {
    }
  }
  if (fits(0)) return absl::OkStatus();
  return wire::make_error(
      wire::ErrorCode::kOutOfMemory,
      fmt::format("{} bytes do not fit on {}: {} of the daemon's limit of {} bytes are taken, in "
                  "whole segments{}",
                  size_bytes, backend_.device(), memory_bytes(), limits_.memory_bytes,
                  kept_bytes() == 0
                      ? std::string()
                      : fmt::format(", {} of them of arrays that have gone and have not been "
                                    "given back, as processes that have written them have them "
                                    "mapped, or it takes a moment",
                                    kept_bytes())),
      fmt::format("{}, or raise {}.",
                  size_bytes > limits_.memory_bytes
                      ? "Create a smaller array or one with fewer slots"
                      : "Withdraw arrays (memleasectl ls, memleasectl holders)",
                  limits_.option));
}

const Account* SegmentPool::warmest() const {
  const Account* warmest = nullptr;
  std::uint64_t most = 0;
  for (const auto& [domain, segments] : classes_) {
    const Account& account = quota_.account(domain.uid);
    const std::uint64_t bytes = account.used(Resource::kWarmBytes);
    if (bytes > most) warmest = &account;
    most = std::max(most, bytes);
  }
  return warmest;
}

bool SegmentPool::return_oldest(const Account* of) {
  Class* oldest_class = nullptr;
  Class::iterator oldest;
  for (auto& [domain, segments] : classes_) {
    if (&quota_.account(domain.uid) != of) continue;
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
  files_.remove(oldest->file, std::move(oldest->bytes), going_);
  oldest_class->erase(oldest);
  memory_bytes_ -= bytes;
  warm_bytes_ -= bytes;
  return true;
}

}  // namespace memlease::server
