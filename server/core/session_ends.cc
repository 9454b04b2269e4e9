#include "server/core/session_ends.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "wire/error.h"

namespace memlease::server {

using wire::ArrayId;

void SessionEnds::begin(Session& session, Departure how, std::string death) {
  session.connected = false;
  session.ending = true;
  session.session_charge = {};
  session.descriptors_charge = {};
  parts_.connections.sessions_changed(session.peer.uid);
  if (how == Departure::kExited && session.peer.has_pid()) {
    parts_.devices.process_exited(session.peer.pid);
  }
  parts_.tally.look(session);
  const uid_t payer = parts_.quota.account(session.peer.uid).uid();
  End end{session.id, how, std::move(death), {}};
  std::size_t budget = arrays_per_slice_;
  if (slice(end, budget)) ends_[payer].push_back(std::move(end));
}

bool SessionEnds::step() {
  if (ends_.empty()) return false;
  for (std::size_t budget = arrays_per_slice_; budget > 0 && !ends_.empty();) {
    auto turn = ends_.upper_bound(last_payer_);
    if (turn == ends_.end()) turn = ends_.begin();
    auto& [payer, ends] = *turn;
    last_payer_ = payer;
    End end = std::move(ends.front());
    ends.pop_front();
    if (slice(end, budget)) {
      ends.push_back(std::move(end));
    } else if (ends.empty()) {
      ends_.erase(turn);
    }
  }
  return true;
}

absl::Status SessionEnds::may_begin_another(uid_t uid) const {
  const Account* const account = parts_.quota.find(uid);
  const auto ends = account == nullptr ? ends_.end() : ends_.find(account->uid());
  if (ends == ends_.end() || ends->second.size() < kMostUnderWay) return absl::OkStatus();
  return wire::make_error(
      wire::ErrorCode::kBusy,
      fmt::format("{} sessions of this user have ended, and what they had is not given back yet",
                  ends->second.size()),
      "Try again, as connect() does until its time is over.");
}

bool SessionEnds::slice(End& end, std::size_t& budget) {
  Session& session = *parts_.sessions.find(end.session);
  for (const ArrayId id : next_arrays(session, budget)) end_array(session, id, end);
  if (!session.memberships.empty() || !session.created.empty()) return true;
  if (end.how == Departure::kExited && !session.read_events.empty()) {
    budget = 0;
    if (!release_reads(session)) return true;
  }
  budget -= std::min(budget, kSessionLikeArrays);
  finish(session, end);
  return false;
}

// In the order of their ids, as people read what follows.
std::vector<ArrayId> SessionEnds::next_arrays(const Session& session, std::size_t& budget) const {
  std::vector<ArrayId> ids;
  const auto add = [&](ArrayId id) {
    const Array* const array = parts_.catalog.find(id);
    const bool ends = array != nullptr && session.created.contains(id);
    const std::size_t work = 1 + (ends ? array->members.size() / kMembersLikeAnArray : 0);
    budget -= std::min(budget, work);
    ids.push_back(id);
  };
  for (const auto& [id, membership] : session.memberships) {
    if (budget == 0) break;
    add(id);
  }
  for (const ArrayId id : session.created) {
    if (budget == 0) break;
    if (!session.memberships.contains(id)) add(id);
  }
  std::ranges::sort(ids);
  return ids;
}

void SessionEnds::end_array(Session& session, ArrayId id, End& end) {
  if (session.memberships.contains(id)) {
    if (Array* const array = parts_.catalog.find(id)) {
      const std::string why =
          end.how == Departure::kLeft ? "" : reclaim_reason(session, *array, !end.death.empty());
      if (!why.empty()) parts_.recorder.reclaimed(*array, session, why, end.reclaimed);
      parts_.reclaimer.detach(session, *array, end.how);
    }
    session.memberships.erase(id);
  }
  Array* const array = parts_.catalog.find(id);
  if (array != nullptr && session.created.contains(id) && !array->withdrawn &&
      array->kind->lifetime == wire::Lifetime::kSession) {
    withdraw(*array, session, end.how);
  }
  session.created.erase(id);
}

void SessionEnds::withdraw(Array& array, const Session& creator, Departure how) {
  parts_.recorder.withdrawn(
      array, creator.peer,
      how == Departure::kExited ? "its creator has ended" : "its creator has left");
  parts_.reclaimer.withdraw(array);
}

// Writers may have made their streams wait for reads that will never end now.
bool SessionEnds::release_reads(Session& session) {
  auto& reads = session.read_events;
  auto next = reads.begin();
  for (std::size_t rows = 0; next != reads.end() && rows < arrays_per_slice_; ++rows) {
    next->second.release(parts_.files);
    reads.erase(next++);
  }
  return reads.empty();
}

void SessionEnds::finish(Session& session, const End& end) {
  parts_.imports.close_all(session);
  if (!end.death.empty()) parts_.recorder.died(session, end.death, end.reclaimed);
  parts_.sessions.erase(end.session);
  parts_.files.session_ended(end.session);
}

std::string SessionEnds::reclaim_reason(const Session& session, const Array& array,
                                        bool died) const {
  const Membership& membership = session.memberships.at(array.id);
  if (parts_.rows.is_writing(membership)) return "was writing";
  if (parts_.rows.in_use(membership, array)) return "held a slot";
  if (!died) return "";
  if (array.creator == session.id && array.kind->lifetime == wire::Lifetime::kSession &&
      !array.rare().home) {
    return std::string(kCreatedIt);
  }
  if (array.writer == session.id) return std::string(kWasItsWriter);
  return "";
}

bool SessionEnds::goes(const Array& array) const {
  const Array* const home = parts_.replicas.home_of(array);
  const Array& itself = home == nullptr ? array : *home;
  if (itself.kind->lifetime != wire::Lifetime::kSession) return false;
  const Session* const creator = parts_.sessions.find(itself.creator);
  return creator != nullptr && creator->ending;
}

void SessionEnds::end_now(Array& array) {
  Session& creator = *parts_.sessions.find(array.creator);
  for (auto& [payer, ends] : ends_) {
    const auto end = std::ranges::find(ends, creator.id, &End::session);
    if (end != ends.end()) return end_array(creator, array.id, *end);
  }
}

}  // namespace memlease::server
