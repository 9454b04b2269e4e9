#include "server/core/reclaimer.h"

#include <algorithm>
#include <utility>

namespace memlease::server {

using wire::ArrayId;
using wire::SessionId;

bool Reclaimer::in_use(const Session& session, const Membership& membership,
                       const Array& array) const {
  if (parts_.rows.in_use(membership, array)) return true;
  const EventSet& writes = array.rare().write_events;
  if (array.writer == session.id && !writes.any_lost() && !writes.all_complete()) return true;
  return !SessionRows::read_events_of(session, membership).all_complete();
}

void Reclaimer::withdraw(Array& array) {
  if (array.withdrawn) return;
  array.withdrawn = true;
  parts_.catalog.remove_name(array);
  set_withdrawn(*array.board);
  parts_.ownership.tell_all(array);
  if (Array* const home = parts_.replicas.home_of(array)) {
    set_elsewhere(*home->board, array.rare().replica_number, false);
  }
  const std::vector<ArrayId> replicas = array.rare().replicas;
  for (const ArrayId id : replicas) withdraw(*parts_.catalog.find(id));
  detach_unused(array);
}

Array* Reclaimer::first_to_look_at_after(ArrayId id) const {
  ArrayId first{0};
  for (const Catalog::Ids* ids : {&parts_.catalog.withdrawn(), &parts_.catalog.replicas()}) {
    const auto next = ids->upper_bound(id);
    if (next != ids->end() && (first == ArrayId{0} || *next < first)) first = *next;
  }
  return parts_.catalog.find(first);
}

bool Reclaimer::give_back_unused(std::size_t most_looks) {
  ArrayId after = std::exchange(unused_after_, ArrayId{0});
  for (std::size_t looks = 0;;) {
    Array* const array = first_to_look_at_after(after);
    if (array == nullptr) break;
    if (looks >= most_looks) {
      unused_after_ = after;
      return true;
    }
    after = array->id;
    looks += looks_at(*array);
    if (array->withdrawn) {
      detach_unused(*array);
    } else if (array->members.empty() && parts_.replicas.home_has_all(*array)) {
      parts_.recorder.let_go(*array, "nobody has it open, and its home has what it has");
      withdraw(*array);
    }
  }
  // A replica may be left by a call or a death that nobody tells of.
  return !parts_.catalog.withdrawn().empty() || !parts_.catalog.replicas().empty();
}

namespace {

// Of an array that is withdrawn: it would stay as long as a client lives that never says that it
// leaves. But rows are the session's until it says so: a thread with an old handle may still come.
void forget_unless_it_has_rows(Session& session, ArrayId id) {
  const auto it = session.memberships.find(id);
  if (!it->second.reader_row && !it->second.writer_row) session.memberships.erase(it);
}

}  // namespace

// Of a withdrawn array. Who uses nothing now can use nothing any more. Where there are events all
// members leave by themselves, or exit: their streams write them, and must not find another's.
void Reclaimer::detach_unused(Array& array) {
  const ArrayId array_id = array.id;
  const auto members = array.members;
  for (const SessionId id : members) {
    Session& session = *parts_.sessions.find(id);
    if (array.rare().write_events.empty() &&
        !in_use(session, session.memberships.at(array.id), array)) {
      const bool last = array.members.size() == 1;
      detach(session, array, Departure::kLeft);
      forget_unless_it_has_rows(session, array_id);
      if (last) return;
    }
  }
  destroy_if_unused(array);
}

void Reclaimer::detach(Session& session, Array& array, Departure how) {
  Membership& membership = session.memberships.at(array.id);
  parts_.ownership.gone(array, session.id, how);
  if (membership.entry != nullptr) {
    remove_subscriber(*array.board, *membership.entry);
    membership.entry = nullptr;
  }
  array.members.erase(std::remove(array.members.begin(), array.members.end(), session.id),
                      array.members.end());
  destroy_if_unused(array);
}

void Reclaimer::destroy_if_unused(Array& array) {
  if (!array.withdrawn || !array.members.empty()) return;
  parts_.tally.look(array, parts_.ownership.current_row(array));
  parts_.store.destroy(array);
  if (Array* const home = parts_.replicas.home_of(array))
    std::erase(home->make_rare().replicas, array.id);
  if (Session* creator = parts_.sessions.find(array.creator)) creator->created.erase(array.id);
  parts_.catalog.erase(array.id);
}

}  // namespace memlease::server
