// This process's connection to one daemon: shared by all clients, arrays, leases and views in the
// process. Owned by their ArrayTable; knows no arrays. Thread-safe.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "client/session/control_port.h"
#include "client/session/file_source.h"
#include "client/session/fork_guard.h"
#include "client/session/mapping_cache.h"
#include "wire/ids.h"
#include "wire/mutex.h"

namespace memlease::internal {

// The time of day in seconds: a library's call and one load from a page that the kernel keeps,
// where the monotonic clocks cost as much as an atomic operation. Serves to see that it changes.
inline std::int64_t coarse_second() { return time(nullptr); }

class Session final {
 public:
  // `incarnation`: tells the daemon's run from others in its directory.
  Session(std::string directory, wire::SessionId id, std::unique_ptr<FileSource> files,
          std::unique_ptr<ControlPort> control, std::string incarnation = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const std::string& directory() const { return directory_; }
  wire::SessionId id() const { return id_; }
  const std::string& incarnation() const { return incarnation_; }
  ControlPort& control() { return *control_; }
  MappingCache& mappings() { return mappings_; }

  // kForkedClient, kDaemonLost or OK. Looks at the socket at most once a second: cheap enough for
  // each acquire and publish.
  absl::Status usable();
  // Nothing speaks against it, and no look is due: usable() would say OK.
  bool usable_at_once() const {
    return !forked() && !ended_.load(std::memory_order_relaxed) &&
           !lost_.load(std::memory_order_relaxed) &&
           last_look_s_.load(std::memory_order_relaxed) == coarse_second();
  }
  // As usable(), but looks at the socket now.
  absl::Status look();

  // For some seconds from now on wait_news tells of its end. False if waits have to look() often.
  bool watch_end() { return files_->watch_end(); }

  bool forked() const { return fork_generation_ != fork_generation(); }

  // One more Client. False if the last one has closed the session: make a new one.
  bool add_connection();
  // True if it was the last one, and closed by its user, and the session is not kept: usable() is
  // kClosed from now on, and goodbye() is next.
  bool remove_connection(bool closed);
  // The session lasts as long as the process does, whatever is closed: it has created an array
  // whose name would go with it.
  void keep() { kept_.store(true); }
  bool kept() const { return kept_.load(); }
  // Ends the connection to the daemon, which takes all back that the session has. No call follows.
  void goodbye() { files_->goodbye(); }

  // The daemon takes nobody any more, as a lease that it refused or a call has shown; those who are
  // connected go on.
  bool daemon_ends() const { return daemon_ends_.load() || control_->daemon_ends(); }
  void note_daemon_ends() { daemon_ends_.store(true); }

  // Bytes copied by put, get and update, as a number of copies.
  void count_copy() { copies_.fetch_add(1, std::memory_order_relaxed); }
  std::uint64_t copies() const { return copies_.load(std::memory_order_relaxed); }

  // Arrays of which pages could not be registered: of slots on the host, for copies on GPUs, or of
  // events.
  void count_refused_registration() {
    refused_registrations_.fetch_add(1, std::memory_order_relaxed);
  }
  std::uint64_t refused_registrations() const {
    return refused_registrations_.load(std::memory_order_relaxed);
  }

  // What views that outlive their write lease cost (SlotPages), and write leases that nobody used.
  struct ViewCounts {
    std::atomic<std::uint64_t> protected_slots{0};
    std::atomic<std::uint64_t> refused_protections{0};
    std::atomic<std::uint64_t> empty_writes{0};
  };
  ViewCounts& view_counts() { return view_counts_; }

  // A connection's check (ConnectOptions::check_interrupt), under a number that no other one gets;
  // 0 if there is none. `after_signals`: it has something to say only after a signal handler.
  std::uint64_t add_interrupt_check(std::function<void()> check, bool after_signals = false);
  // Nobody calls it any more, but for threads that are just doing so.
  void remove_interrupt_check(std::uint64_t number);
  // OK, or kInterrupted with what that check has thrown. To be asked by every wait, for the
  // connection that it is made for. OK also where there is no such check, or none any more.
  absl::Status check_interrupt(std::uint64_t number) const;
  // usable(), and then check_interrupt(): may a wait go on?
  absl::Status check_wait(std::uint64_t interrupt_check);
  // Has it something to say at any time?
  bool interrupts_any_time(std::uint64_t number) const;

 private:
  const std::string directory_;
  const wire::SessionId id_;
  const std::string incarnation_;
  const std::unique_ptr<FileSource> files_;
  const std::unique_ptr<ControlPort> control_;
  MappingCache mappings_;
  const std::uint32_t fork_generation_;
  std::atomic<std::int64_t> last_look_s_{0};
  std::atomic<bool> lost_{false};
  std::atomic<bool> closed_by_program_{false};  // which is why it is lost
  std::atomic<bool> kept_{false};
  std::atomic<bool> daemon_ends_{false};
  std::atomic<bool> ended_{false};  // closed by its last user; set under mutex_
  std::atomic<std::uint64_t> copies_{0};
  std::atomic<std::uint64_t> refused_registrations_{0};
  ViewCounts view_counts_;

  wire::Mutex mutex_;
  std::uint32_t connections_ ABSL_GUARDED_BY(mutex_) = 0;

  struct UserCheck {
    std::shared_ptr<const std::function<void()>> check;
    bool after_signals = false;
  };
  UserCheck find_interrupt_check(std::uint64_t number) const ABSL_LOCKS_EXCLUDED(interrupt_mutex_);

  mutable wire::Mutex interrupt_mutex_;
  std::uint64_t last_interrupt_check_ ABSL_GUARDED_BY(interrupt_mutex_) = 0;
  std::map<std::uint64_t, UserCheck> interrupt_checks_ ABSL_GUARDED_BY(interrupt_mutex_);
};

}  // namespace memlease::internal
