#include "server/core/recorder.h"

#include <utility>

#include "wire/error.h"

namespace memlease::server {

void Recorder::created(const Array& array, const Session& by) {
  tally_.array_created();
  history_.add(of_member(Happening::kCreated, array, by));
}

void Recorder::withdrawn(const Array& array, const PeerIdentity& by, std::string reason) {
  HistoryEvent event = of_array(Happening::kWithdrawn, array, by);
  event.held_ms = ms_since(array.created);
  event.reason = std::move(reason);
  history_.add(std::move(event));
}

void Recorder::reclaimed(const Array& array, const Session& from, std::string why, Reclaimed& sum) {
  HistoryEvent event = of_member(Happening::kReclaimed, array, from);
  tally_.reclaimed(why, event.bytes);
  ++sum.arrays;
  sum.bytes += event.bytes;
  event.reason = std::move(why);
  history_.add(std::move(event));
}

void Recorder::died(const Session& session, std::string reason, const Reclaimed& sum) {
  HistoryEvent event = of_session(Happening::kDied, session);
  event.reason = std::move(reason);
  event.arrays = sum.arrays;
  event.bytes = sum.bytes;
  history_.add(std::move(event));
}

void Recorder::evicted(const Session& session, const PeerIdentity& by, std::uint64_t bytes_in_use) {
  HistoryEvent event = of_session(Happening::kEvicted, session);
  event.bytes = bytes_in_use;
  event.reason = "by uid " + std::to_string(by.uid);
  tally_.session_evicted();
  history_.add(std::move(event));
}

void Recorder::grown(const Array& array, const Session& writer, std::size_t change) {
  HistoryEvent event = of_member(Happening::kGrown, array, writer);
  event.bytes = array.slot_bytes * change;
  event.slots = static_cast<std::uint32_t>(array.slots.size());
  event.reason = "readers hold the others";
  tally_.slots_added(change);
  history_.add(std::move(event));
}

void Recorder::shrunk(const Array& array, std::size_t change) {
  PeerIdentity owner;
  owner.uid = array.domain.uid;
  HistoryEvent event = of_array(Happening::kShrunk, array, owner);
  event.bytes = array.slot_bytes * change;
  event.slots = static_cast<std::uint32_t>(array.slots.size());
  event.reason = "nobody uses what was added";
  history_.add(std::move(event));
}

void Recorder::let_go(const Array& array, std::string reason) {
  PeerIdentity owner;
  owner.uid = array.domain.uid;
  withdrawn(array, owner, std::move(reason));
}

void Recorder::mechanism_changed(MechanismChange change) {
  HistoryEvent event;
  event.what = change.degraded ? Happening::kDegraded : Happening::kRecovered;
  event.mechanism = change.mechanism;
  event.reason = std::move(change.reason);
  event.hint = std::move(change.hint);
  history_.add(std::move(event));
}

HistoryEvent Recorder::of_array(Happening what, const Array& array, const PeerIdentity& by) const {
  HistoryEvent event;
  event.what = what;
  event.pid = by.pid;
  event.uid = by.uid;
  event.command = by.command;
  event.array = array.name;
  event.domain = array.domain;
  event.bytes = array.slot_bytes * array.slots.size();
  return event;
}

HistoryEvent Recorder::of_member(Happening what, const Array& array, const Session& by) const {
  HistoryEvent event = of_array(what, array, by.peer);
  event.session = by.id;
  event.held_ms = ms_since(by.memberships.at(array.id).since);
  return event;
}

HistoryEvent Recorder::of_session(Happening what, const Session& session) const {
  HistoryEvent event;
  event.what = what;
  event.session = session.id;
  event.pid = session.peer.pid;
  event.uid = session.peer.uid;
  event.command = session.peer.command;
  event.held_ms = ms_since(session.since);
  return event;
}

std::uint64_t Recorder::ms_since(const Moment& moment) const {
  return clock_.monotonic_ms() - moment.monotonic_ms;
}

}  // namespace memlease::server
