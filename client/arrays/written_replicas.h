// The replicas on which versions of one home have been written, as this process has opened them to
// look for the newest version. Each is kept by a handle of its own (Membership). Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "client/arrays/handle_owner.h"
#include "client/arrays/open_array.h"
#include "client/session/interrupt.h"
#include "wire/mutex.h"

namespace memlease::internal {

class WrittenReplicas {
 public:
  using Arrays = std::vector<std::shared_ptr<OpenArray>>;

  WrittenReplicas() = default;
  // Calls nobody.
  ~WrittenReplicas();
  WrittenReplicas(const WrittenReplicas&) = delete;
  WrittenReplicas& operator=(const WrittenReplicas&) = delete;

  // Adds those that `bits`, the home's word `elsewhere`, names. Opens what is not open yet, which
  // calls the daemon: an interrupt, kClosed, and what that says; one that has gone meanwhile is no
  // error. Closes what is of no use any more: a replica that has been withdrawn, and one whose bit
  // is nobody's.
  absl::Status add_to(Arrays& found, HandleOwner& owner, OpenArray& home, std::uint32_t bits,
                      InterruptCheck interrupt);
  // All of them, and what add_to() still opens in another thread. May call the daemon.
  void close();

 private:
  std::shared_ptr<OpenArray> find(std::uint32_t number);
  bool keep(std::uint32_t number, const std::shared_ptr<OpenArray>& opened);
  // `kept`: a bit for each that stays. Fails with what `interrupt` says alone.
  absl::Status close_all_but(std::uint32_t kept, InterruptCheck interrupt);

  wire::Mutex mutex_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::uint32_t, std::shared_ptr<OpenArray>> open_ ABSL_GUARDED_BY(mutex_);  // by numbers
};

}  // namespace memlease::internal
