#include "server/core/slot_growth.h"

#include <algorithm>
#include <bit>

#include "fmt/format.h"
#include "server/core/slot_board.h"
#include "wire/error.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::server {

using internal::crash_point;
using internal::leaves_out;
using wire::ErrorCode;
using wire::make_error;

namespace {

constexpr std::string_view kLookAgain = "Look again.";

}  // namespace

SlotGrowth::Holders SlotGrowth::holders(const Array& array) const {
  Holders holders;
  for (const wire::SessionId id : array.members) {
    const Session& session = *sessions_.find(id);
    const Membership& membership = session.memberships.at(array.id);
    (session.evicted ? holders.evicted : holders.others) |= rows_.held_slots(membership, array);
    // Recorded before the slot was let go, hence looked at after the holds.
    holders.at_work |= SessionRows::read_events_of(session, membership).incomplete();
  }
  return holders;
}

bool SlotGrowth::Holders::hold(const Array& array, std::uint32_t slot) const {
  if (slot >= array.kind->slots && leaves_out("see who holds an added slot")) return false;
  return ((evicted | others) >> slot & 1) != 0;
}

bool SlotGrowth::used(const Array& array, const Holders& holders, std::uint32_t slot) const {
  return holders.hold(array, slot) || (holders.at_work >> slot & 1) != 0 ||
         writer_uses(writer_ownership_.current_row(array), slot) ||
         !array.rare().write_events.complete(slot);  // recorded before the writer leaves the slot
}

std::uint32_t SlotGrowth::most_slots(const Array& array, const Holders& holders) {
  const int of_evicted = std::popcount(holders.evicted & ~holders.others);
  return std::min(array.kind->max_slots + static_cast<std::uint32_t>(of_evicted),
                  array.layout().most);
}

absl::StatusOr<std::optional<SegmentPool::Growth>> SlotGrowth::add(Array& array,
                                                                   const Session& writer,
                                                                   std::uint32_t slots) {
  if (array.writer != writer.id) {
    return make_error(ErrorCode::kBusy,
                      fmt::format("another process may write '{}' now", array.name),
                      "Ask for writer ownership first.");
  }
  const auto there = static_cast<std::uint32_t>(array.slots.size());
  if (there > slots) return std::nullopt;
  const Holders holders = this->holders(array);
  if (const std::uint32_t most = most_slots(array, holders); there >= most) {
    return make_error(
        ErrorCode::kNoFreeSlot,
        fmt::format("'{}' has {} slots already, and may have {}", array.name, there, most),
        "Create it with a larger max_slots.");
  }
  const wire::WriterRow& row = writer_ownership_.current_row(array);
  // A request that its writer has long given up, perhaps, and that finds what was in such a slot.
  if (row.slot_words()[there].load() != 0 && !leaves_out("look at the word of a new slot")) {
    return make_error(ErrorCode::kBusy,
                      fmt::format("the writer of '{}' has not cleared slot {}", array.name, there),
                      kLookAgain);
  }
  const wire::Publication current = wire::unpack_publication(row.publication.load());
  for (std::uint32_t s = 0; s < there; ++s) {
    if ((current.version != 0 && s == current.slot) || holders.hold(array, s)) continue;
    return make_error(ErrorCode::kBusy,
                      fmt::format("nobody holds slot {} of '{}' any more", s, array.name),
                      kLookAgain);
  }
  return store_.add_slot(array);
}

std::uint32_t SlotGrowth::take_idle(Array& array) {
  const wire::WriterRow& row = writer_ownership_.current_row(array);
  const Holders at_first = holders(array);
  std::uint32_t taken = 0;
  bool last = true;
  for (auto slot = static_cast<std::uint32_t>(array.slots.size()); slot-- > array.kind->slots;) {
    Array::Added& added = array.make_rare().added[slot - array.kind->slots];
    const auto before = std::exchange(added.idle_word, std::nullopt);
    const std::uint64_t word = row.slot_words()[slot].load();
    if (!used(array, at_first, slot)) added.idle_word = word;
    last = last && added.idle_word && before == added.idle_word;
    if (!last) continue;
    // First the mark, then the look that counts.
    begin_closing(*array.board);
    last = !used(array, holders(array), slot);
    crash_point("take_idle.looked");
    end_closing(*array.board, last);
    if (!last) continue;
    store_.remove_slot(array);
    ++taken;
  }
  return taken;
}

}  // namespace memlease::server
