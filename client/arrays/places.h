// The arrays among which the newest version of an array is, as one handle sees them: the one here,
// the home, and replicas that have been written (client/arrays/replicas.h). Keeps them open.
// Immutable; thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/arrays/open_array.h"

namespace memlease::internal {

class Places {
 public:
  using Arrays = std::vector<std::shared_ptr<OpenArray>>;
  // `others`: all but `here`; the home is here or among them.
  // `written`: as the home's board said before these were looked for.
  Places(std::shared_ptr<OpenArray> here, std::shared_ptr<OpenArray> home, Arrays others,
         std::uint32_t written)
      : here_(std::move(here)),
        home_(std::move(home)),
        others_(std::move(others)),
        written_(written) {}

  OpenArray& here() const { return *here_; }
  OpenArray& home() const { return *home_; }
  // No further replica has been written since, but perhaps one of the bits `own`.
  bool are_all(std::uint32_t own = 0) const {
    return (home_->board().elsewhere.load() & ~own) == (written_ & ~own);
  }
  Arrays all() const;
  // Whoever was about to publish this version somewhere has died. To be asked before newest(): if
  // that is older, the version will never come.
  bool lost(std::uint64_t version) const;

  // This number was taken, and who took it has ended the write. Likewise: if newest() is older
  // then, the version was dropped. False, too, before newest() has mapped the home's writer's row.
  bool given_up(std::uint64_t version) const;

  // The number of the newest version anywhere; 0: none. Calls the daemon for the page of a writer
  // that this process has not met. An interrupt; kWithdrawn.
  absl::StatusOr<std::uint64_t> newest(InterruptCheck interrupt) const;
  // The same, but 0 where it stands nowhere any more: it was in an only slot. Likewise.
  absl::StatusOr<std::uint64_t> current(InterruptCheck interrupt) const;
  // Where it is if it is not here; nullptr: it is here, or has been given up here, in an only slot,
  // and is nowhere else. Likewise.
  absl::StatusOr<OpenArray*> place_of_newer(InterruptCheck interrupt) const;

 private:
  struct Newest {
    std::uint64_t version = 0;
    OpenArray* place = nullptr;  // not here
    bool stands = true;
  };
  absl::StatusOr<Newest> find_newest(InterruptCheck interrupt) const;

  std::shared_ptr<OpenArray> here_;
  std::shared_ptr<OpenArray> home_;
  Arrays others_;
  std::uint32_t written_;
};

}  // namespace memlease::internal
