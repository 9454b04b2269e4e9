// Writes down what the broker does, as events of its history and in the tally: one method for each
// kind of event, so that the broker says what happened and this says how that reads and counts. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "server/core/array.h"
#include "server/core/clock.h"
#include "server/core/history.h"
#include "server/core/mechanism.h"
#include "server/core/session.h"
#include "server/core/tally.h"

namespace memlease::server {

class Recorder {
 public:
  // Both outlive this.
  Recorder(const Clock& clock, Tally& tally) : clock_(clock), tally_(tally), history_(clock) {}

  const History& history() const { return history_; }

  void created(const Array& array, const Session& by);
  void withdrawn(const Array& array, const PeerIdentity& by, std::string reason = {});
  // Of a process that has ended, one by one: what it had in use or had created, and why it counts.
  // Adds it to the sum, which the death has, behind them.
  struct Reclaimed {
    std::uint32_t arrays = 0;
    std::uint64_t bytes = 0;
  };
  void reclaimed(const Array& array, const Session& from, std::string why, Reclaimed& sum);
  void died(const Session& session, std::string reason, const Reclaimed& sum);
  void evicted(const Session& session, const PeerIdentity& by, std::uint64_t bytes_in_use);
  // From now on it has its slots; `change`: that came or went.
  void grown(const Array& array, const Session& writer, std::size_t change);
  void shrunk(const Array& array, std::size_t change);
  // By the daemon itself, which withdraws it.
  void let_go(const Array& array, std::string reason);
  void mechanism_changed(MechanismChange change);

 private:
  HistoryEvent of_array(Happening what, const Array& array, const PeerIdentity& by) const;
  HistoryEvent of_member(Happening what, const Array& array, const Session& by) const;
  HistoryEvent of_session(Happening what, const Session& session) const;
  std::uint64_t ms_since(const Moment& moment) const;

  const Clock& clock_;
  Tally& tally_;
  History history_;
};

}  // namespace memlease::server
