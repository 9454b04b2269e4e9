#include "server/core/replicas.h"

#include <utility>

#include "fmt/format.h"
#include "server/core/slot_board.h"
#include "wire/array_spec.h"
#include "wire/error.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::server {

using internal::crash_point;
using internal::leaves_out;
using wire::ErrorCode;
using wire::make_error;

namespace {

template <typename Is>
Array* find_if(const Catalog& catalog, const Array& home, Is is) {
  for (const wire::ArrayId id : home.rare().replicas) {
    Array* const replica = catalog.find(id);
    if (!replica->withdrawn && is(*replica)) return replica;
  }
  return nullptr;
}

// What was published there last, and whether it stands: not where its only slot has lost it, or is
// being written.
std::pair<std::uint64_t, bool> newest(const Array& array, const wire::WriterRow& row) {
  const bool is_written = (row.slot_words()[0].load() & wire::kHandedOut) != 0;
  const bool is_lost = array.kind->slots == 1 && (is_written || wire::only_slot_is_empty(row, 1));
  return {wire::unpack_publication(row.publication.load()).version, !is_lost};
}

wire::ArraySpec spec_of_replica(const Array& home, const std::string& device) {
  wire::ArraySpec spec = home.spec();
  spec.name = wire::name_of_replica(home.name, device);
  spec.device = device;
  spec.writer = wire::Writer::kAny;  // who may write is the home's to say; readers copy
  return spec;
}

absl::Status may_not_make_replica(const Array& home, const std::string& device, uid_t viewer) {
  return make_error(
      ErrorCode::kDenied,
      fmt::format("'{}' has no replica on {}, and uid {} may not make one, as it may not write the "
                  "array (mode {:#o})",
                  home.name, device, viewer, home.kind->mode),
      "Read the array where it is, or let its owner make the replica: array.on(device).");
}

absl::Status is_no_replica(const Array& array) {
  return make_error(ErrorCode::kInvalidArgument, fmt::format("'{}' is not a replica", array.name),
                    "Write it as it is.");
}

}  // namespace

Array* Replicas::home_of(const Array& replica) const {
  return replica.rare().home ? catalog_.find(*replica.rare().home) : nullptr;
}

Array* Replicas::find(const Array& home, std::uint32_t number) const {
  return find_if(catalog_, home,
                 [&](const Array& replica) { return replica.rare().replica_number == number; });
}

absl::StatusOr<Replicas::Found> Replicas::find_or_make(Array& home, const std::string& device,
                                                       const PeerIdentity& viewer) {
  Array* const there =
      find_if(catalog_, home, [&](const Array& replica) { return replica.kind->device == device; });
  if (there != nullptr) return there;
  if (!may_write(viewer, home.domain)) return may_not_make_replica(home, device, viewer.uid);
  const auto number = free_number(home, device);
  if (!number.ok()) return number.status();
  auto creation = store_.create(spec_of_replica(home, device), home.domain, nullptr);
  if (!creation.ok()) return creation.status();
  if (const auto* growth = std::get_if<SegmentPool::Growth>(&*creation)) return *growth;
  auto replica = std::get<std::unique_ptr<Array>>(std::move(*creation));
  Array::Rare& rare = replica->make_rare();
  rare.home = home.id;
  rare.replica_number = *number;
  rare.attributes = home.rare().attributes;
  rare.attribute_bytes = home.rare().attribute_bytes;
  home.make_rare().replicas.push_back(replica->id);
  return replica;
}

// Of those that have been withdrawn, too: their bits are theirs until they are gone.
absl::StatusOr<std::uint32_t> Replicas::free_number(const Array& home,
                                                    const std::string& device) const {
  if (home.rare().home) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("'{}' is a replica, which has none of its own", home.name),
                      "Ask the array itself.");
  }
  if (home.kind->device == device) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("'{}' itself is on {}", home.name, device), "Use the array.");
  }
  std::uint32_t used = 0;
  for (const wire::ArrayId id : home.rare().replicas) {
    used |= std::uint32_t{1} << catalog_.find(id)->rare().replica_number;
  }
  for (std::uint32_t number = 0; number < wire::kMaxReplicas; ++number) {
    if ((used >> number & 1) == 0) return number;
  }
  return make_error(
      ErrorCode::kQuotaExceeded,
      fmt::format("'{}' has {} replicas, and no array has more", home.name, wire::kMaxReplicas),
      "Close the handles of those that nobody needs.");
}

absl::Status Replicas::write_elsewhere(const Array& replica) {
  Array* const home = home_of(replica);
  if (home == nullptr) return is_no_replica(replica);
  set_elsewhere(*home->board, replica.rare().replica_number, true);
  return absl::OkStatus();
}

bool Replicas::home_has_all(const Array& replica) const {
  const Array* const home = home_of(replica);
  if (home == nullptr) return true;
  return newest(*home, ownership_.current_row(*home)) >=
             newest(replica, ownership_.current_row(replica)) &&
         home->rare().write_events.all_complete() && replica.rare().write_events.all_complete();
}

// First the mark, then the looks: no write begins behind them.
bool Replicas::may_let_go(Array& replica) const {
  if (replica.pending) return false;
  if (!leaves_out("mark what is let go")) set_moving(*replica.board);
  if (is_writing(ownership_.current_row(replica)) || !home_has_all(replica)) {
    clear_moving(*replica.board);
    return false;
  }
  crash_point("let_go.looked");
  return true;
}

absl::Status no_such_replica(const Array& home, std::uint32_t number) {
  return make_error(ErrorCode::kNotFound, fmt::format("'{}' has no replica {}", home.name, number),
                    "Look again.");
}

absl::Status has_what_its_home_lacks(const Array& replica) {
  return make_error(
      ErrorCode::kBusy,
      fmt::format("'{}' has versions that its home does not have yet, or is being written",
                  replica.name),
      "Read the array at its home first, which copies the newest one there, or publish another; or "
      "withdraw the array.");
}

}  // namespace memlease::server
