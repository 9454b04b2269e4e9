// Moving the writer's right between sessions: ask, wait for the old writer's last write, copy its
// row, confirm. The daemon never waits: who asks too early is told so and asks again.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/array.h"
#include "server/core/clock.h"
#include "server/core/file_table.h"
#include "server/core/session.h"

namespace memlease::server {

struct WriterAnswer {
  enum class State { kGranted = 1, kOffered = 2, kBusy = 3 };
  State state = State::kBusy;
  wire::RowRef row;   // of the one who asks
  wire::RowRef from;  // kOffered: copy it; kBusy: its writer is at work
  std::uint64_t offer = 0;
};

class WriterRight {
 public:
  // An offer that nobody confirms for this long falls to the next one who asks.
  static constexpr std::uint64_t kOfferMs = 1000;
  // The row of a session's array, as the daemon sees it.
  using RowOf = std::function<wire::FileRange(wire::SessionId, wire::ArrayId)>;

  WriterRight(const FileTable& files, const Clock& clock, RowOf row_of);

  // `row`: the asking session's own writer row.
  WriterAnswer ask(Array& array, wire::SessionId session, wire::FileRange row);
  absl::Status confirm(Array& array, wire::SessionId session, std::uint64_t offer);
  void cancel(Array& array, wire::SessionId session);
  // The session has left the array or exited: if it has the right, the heir takes it over.
  void gone(Array& array, wire::SessionId session);

 private:
  wire::FileRange current_row(const Array& array) const;
  const wire::WriterRow& at(wire::FileRange row) const;

  const FileTable& files_;
  const Clock& clock_;
  const RowOf row_of_;
  std::uint64_t last_offer_ = 0;
};

}  // namespace memlease::server
