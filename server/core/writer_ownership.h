// Moving writer ownership between sessions: ask, wait for the old writer's last write, copy its
// row, confirm. The daemon never waits: who asks too early is told so and asks again. Of many who
// ask only one is woken by the writer's end, and the others by the daemon, each in its turn: what a
// move costs does not grow with their number.
// Not thread-safe.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/array.h"
#include "server/core/clock.h"
#include "server/core/name_board.h"
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
  // kBusy: so many others come first. None: its writer's row wakes who asks; else this count, once
  // it is that session's turn, or there is nothing to wait for.
  std::uint32_t ahead = 0;
  NameBoard::Count turn{};
};

class WriterOwnership {
 public:
  // An offer that nobody confirms for this long falls to the next one who asks. To confirm takes
  // microseconds, and whoever is too late asks again; but while one process that has been stopped
  // has an offer, nobody writes.
  static constexpr std::uint64_t kOfferMs = 100;
  // Who has got ownership while others wait has so long to begin a write: else it may go round, and
  // nobody writes.
  static constexpr std::uint64_t kBeginMs = 10;

  WriterOwnership(const SessionRows& rows, const SessionTable& sessions, NameBoard& name_board,
                  const Clock& clock)
      : rows_(rows), sessions_(sessions), name_board_(name_board), clock_(clock) {}

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
  // Nothing begins any more: all who wait ask again, and are told why.
  void tell_all(const Array& array);
  // The session has left the array, or its process has exited: if it is the writer, the takeover
  // row takes it over.
  void gone(Array& array, wire::SessionId session, Departure how);

 private:
  void wait_behind(Array& array, wire::SessionId session, WriterAnswer& answer);
  bool is_its_turn(Array& array, wire::SessionId session);
  bool has_yet_to_begin(const Array& array) const;
  void next_turn(Array& array);
  void leave_queue(Array& array, wire::SessionId session);
  void tell(const Array& array, wire::SessionId session);

  const SessionRows& rows_;
  const SessionTable& sessions_;
  NameBoard& name_board_;
  const Clock& clock_;
  std::uint64_t last_offer_ = 0;
};

}  // namespace memlease::server
