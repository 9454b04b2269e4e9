#include "server/core/memberships.h"

#include <algorithm>

#include "server/core/refusals.h"
#include "server/core/session_rows.h"

namespace memlease::server {

using wire::ArrayId;

void Memberships::join(Session& session, Array& array) {
  auto [it, is_new] = session.memberships.try_emplace(array.id);
  if (is_new) {
    it->second.since = clock_.now();
    it->second.charge = quota_.account(session.peer.uid).empty_charge(Resource::kOpenArrays);
    it->second.charge.add_anyway(1);
    array.members.push_back(session.id);
    files_.pin(array.board_at.file, session.id, session.peer.uid);
    for (const wire::FileRange& slot : array.slots) {
      files_.pin(slot.file, session.id, session.peer.uid);
    }
    if (!array.rare().write_events.empty()) {
      files_.pin(array.rare().write_events.at().file, session.id, session.peer.uid);
    }
  }
  ++it->second.opens;
}

absl::StatusOr<Memberships::Member> Memberships::find(Session& session, ArrayId id) const {
  const auto membership = session.memberships.find(id);
  Array* array = catalog_.find(id);
  if (membership == session.memberships.end() || array == nullptr) return not_its_array_any_more();
  return Member{array, &membership->second};
}

absl::Status Memberships::leave(Session& session, ArrayId id, std::uint32_t opens) {
  const auto it = session.memberships.find(id);
  // The array may have gone by nobody's asking; and nobody learns here which ones there are.
  if (it == session.memberships.end()) return absl::OkStatus();
  Membership& membership = it->second;
  if (opens < membership.opens) {
    membership.opens -= opens;
    return absl::OkStatus();
  }
  Array* array = catalog_.find(id);
  if (array != nullptr && reclaimer_.in_use(session, membership, *array))
    return still_in_use(*array);
  if (array != nullptr) reclaimer_.detach(session, *array, Departure::kLeft);
  SessionRows::give_back(session, membership);
  session.memberships.erase(it);
  session.asks.erase(id);
  return absl::OkStatus();
}

absl::Status Memberships::leave_once(Session& session, ArrayId id, std::uint32_t opens,
                                     std::uint64_t number) {
  if (number == 0) return leave(session, id, opens);
  DoneDepartures& done = session.done_departures;
  if (done.contains(number)) return absl::OkStatus();
  if (!done.has_room_for(number)) return too_many_in_doubt(number);
  auto status = leave(session, id, opens);
  if (status.ok()) done.add(number);
  return status;
}

bool Memberships::in_use(const Session& session) const {
  return std::ranges::any_of(session.memberships, [&](const auto& membership) {
    return array_in_use(session, membership.first, membership.second) != nullptr;
  });
}

std::uint64_t Memberships::bytes_in_use(const Session& session) const {
  std::uint64_t bytes = 0;
  for (const auto& [id, of_it] : session.memberships) {
    const Array* const array = array_in_use(session, id, of_it);
    if (array != nullptr) bytes += array->slot_bytes * array->slots.size();
  }
  return bytes;
}

RowClass Memberships::class_of(ArrayId id, const Membership& of_it) const {
  return of_it.row_class == nullptr ? row_class_of(*catalog_.find(id)) : *of_it.row_class;
}

const Array* Memberships::array_in_use(const Session& session, ArrayId id,
                                       const Membership& of_it) const {
  if (!of_it.reader_row && !of_it.writer_row) return nullptr;
  const Array* const array = catalog_.find(id);
  return array != nullptr && reclaimer_.in_use(session, of_it, *array) ? array : nullptr;
}

// The one that was another's is looked at first: who asks again and again, in vain, is not to have
// all of many looked at each time.
bool Memberships::all_are_of(Session& session, uid_t uid) const {
  const auto is_of_another = [&](const auto& membership) {
    const auto& [array, of_it] = membership;
    return class_of(array, of_it).domain.uid != uid;
  };
  const auto& all = session.memberships;
  const auto known = all.find(session.not_of_viewer);
  if (known != all.end() && is_of_another(*known)) return false;
  const auto found = std::ranges::find_if(all, is_of_another);
  if (found == all.end()) return true;
  session.not_of_viewer = found->first;
  return false;
}

}  // namespace memlease::server
