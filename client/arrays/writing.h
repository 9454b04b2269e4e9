// What writes one array in this process: the writer's half of the slot protocol, for one thread at
// a time. A thread enters before a write begins, and the write's end leaves, by whatever thread.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "client/arrays/count_watch.h"
#include "client/arrays/lazily.h"
#include "client/arrays/write_lock.h"
#include "client/slots/slot_writer.h"

namespace memlease::internal {

class OpenArray;

class Writing {
 public:
  // Thread-safe. False if somebody else has entered.
  bool enter() { return lock_.acquire(); }
  // While this lives leave() wakes who sleeps behind a look.
  WriteLock::Waiter waiter() { return WriteLock::Waiter(lock_); }
  wire::FutexWait look() const { return lock_.look(); }
  bool has_waiters() const { return lock_.has_waiters(); }
  void leave() { lock_.release(); }
  // Thread-safe. Somebody has entered.
  bool entered() const { return lock_.taken(); }
  // The lease of whoever has entered is used by this thread, which may be another one.
  void pass_to_this_thread() { lock_.pass_to_this_thread(); }
  // This thread has, or uses its lease, and nobody has left since.
  bool entered_by_this_thread() const { return lock_.taken_by_this_thread(); }

  // What follows is for whoever has entered.

  // nullptr: this process has not been given a row to write by yet.
  SlotWriter* slot_writer() { return own_.if_made(); }
  const SlotWriter* slot_writer() const { return own_.if_made(); }
  // Once; as SlotWriter's constructor.
  template <typename... Args>
  SlotWriter& make_slot_writer(Args&&... args) {
    return own_.set(std::make_unique<Own>(std::forward<Args>(args)...));
  }

  // The rest is there with that row.

  // For who waits behind others to write.
  CountWatch& turn_watch() { return own_.if_made()->turn_watch.get(); }

  // In a write on a replica: its number is from this home, which has claimed it (claim_number()).
  // With the write's end the home's ends.
  void set_numbered_by(OpenArray& home) { own_.if_made()->numbered_by = &home; }
  OpenArray* take_numbered_by() { return std::exchange(own_.if_made()->numbered_by, nullptr); }

  // When a writer that would skip a version asks the daemon for one more slot again.
  std::chrono::steady_clock::time_point next_growth() const { return own_.if_made()->next_growth; }
  void set_next_growth(std::chrono::steady_clock::time_point at) {
    own_.if_made()->next_growth = at;
  }

 private:
  struct Own : SlotWriter {
    using SlotWriter::SlotWriter;
    Lazily<CountWatch> turn_watch;
    OpenArray* numbered_by = nullptr;  // kept by its own write lock
    std::chrono::steady_clock::time_point next_growth;
  };
  WriteLock lock_;
  Lazily<Own> own_;
};

}  // namespace memlease::internal
