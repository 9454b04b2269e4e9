// Moving writer ownership between sessions: ask, wait for the old writer's last write, copy its
// row, confirm. The daemon never waits: who asks too early is told so and asks again.
// Not thread-safe.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/array.h"
#include "server/core/clock.h"
#include "server/core/session_rows.h"
#include "server/core/session_table.h"
#include "server/core/slot_board.h"

namespace memlease::server {

struct WriterAnswer {
  enum class State { kGranted = 1, kOffered = 2, kBusy = 3 };
  State state = State::kBusy;
  wire::RowRef row;   // of the one who asks
  wire::RowRef from;  // kOffered: copy it; kBusy: its writer is at work
  std::uint64_t offer = 0;
};

class WriterOwnership {
 public:
  // An offer that nobody confirms for this long falls to the next one who asks. To confirm takes
  // microseconds, and whoever is too late asks again; but while one process that has been stopped
  // has an offer, nobody writes.
  static constexpr std::uint64_t kOfferMs = 100;

  WriterOwnership(const SessionRows& rows, const SessionTable& sessions, const Clock& clock)
      : rows_(rows), sessions_(sessions), clock_(clock) {}

  // Where the row is that counts: the writer's, or the takeover row.
  wire::FileRange current(const Array& array) const;
  // The same, to be looked at.
  const wire::WriterRow& current_row(const Array& array) const {
    return rows_.writer(current(array));
  }

  // kDenied, naming the writer, if the array has an exclusive one that is another session. It is
  // that while it has the array open and is connected.
  absl::Status may_ask(const Array& array, wire::SessionId session) const;
  // `row`: the asking session's own writer row.
  WriterAnswer ask(Array& array, wire::SessionId session, wire::FileRange row);
  absl::Status confirm(Array& array, wire::SessionId session, std::uint64_t offer);
  void cancel(Array& array, wire::SessionId session);
  // The session has left the array, or its process has exited: if it is the writer, the takeover
  // row takes it over.
  void gone(Array& array, wire::SessionId session, Departure how);

 private:
  const SessionRows& rows_;
  const SessionTable& sessions_;
  const Clock& clock_;
  std::uint64_t last_offer_ = 0;
};

}  // namespace memlease::server
