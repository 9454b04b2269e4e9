// What has happened lately: a bounded number of events, for people and for the log. An event is a
// value; who says it in which words is decided elsewhere (server/report/history_log.h,
// memleasectl).
//
// When there is no room for one more, the oldest event of the user who has most goes: whoever
// creates arrays in a loop pushes out his own events, not those that tell what became of others.
//
// Not thread-safe. Filled by Broker; read by Daemon, for the log, and by AdminService.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/core/access.h"
#include "server/core/clock.h"
#include "server/core/mechanism.h"
#include "server/core/session_host.h"
#include "wire/ids.h"

namespace memlease::server {

enum class Happening : std::uint8_t {
  kCreated = 1,
  kWithdrawn,
  kDied,       // a process has ended, or runs another program, before it had left
  kReclaimed,  // an array that such a process had in use or was the writer of, or that went with it
  kEvicted,
  kGrown = 7,  // an array has a slot more
  kShrunk,
  kDegraded,   // the daemon does without a mechanism from now on
  kRecovered,  // and has it again
};

// The reasons of kReclaimed where the process neither held nor wrote the array: it went with its
// creator, or lives on without a writer.
inline constexpr std::string_view kCreatedIt = "created it";
inline constexpr std::string_view kWasItsWriter = "was its writer";

// Its name, for programs: "created".
std::string_view name_of(Happening what);

struct HistoryEvent {
  std::uint64_t number = 0;  // 1, 2, ... in the daemon's run
  std::uint64_t unix_ms = 0;
  Happening what = Happening::kCreated;
  // Who did it, or whom it befell. By a call of memleasectl, only the uid is known; of what the
  // daemon does by itself, the uid is that of the array's owner.
  wire::SessionId session{0};
  pid_t pid = 0;
  uid_t uid = 0;
  std::string command;
  // Of the daemon itself, so of no user: all else but `reason` and `hint` is empty then.
  std::optional<Mechanism> mechanism;
  // Of an array; without a domain the event is of the session alone.
  std::string array;
  std::optional<AccessDomain> domain;
  // Of the array's slots; of kDied, of all arrays that were reclaimed; of kEvicted, of those that
  // the session holds a slot of, or writes; of kGrown and kShrunk, of the slots that came or went.
  std::uint64_t bytes = 0;
  // How long the session had the array open, or was connected; how long an array was there.
  std::uint64_t held_ms = 0;
  std::uint32_t slots = 0;   // kGrown, kShrunk: that the array has now
  std::uint32_t arrays = 0;  // kDied: that were reclaimed
  std::string reason;
  std::string hint;  // what to do about it
};

// Of an array's event: who may read the array. Of a session's: who may see the session. Of a
// mechanism's: everybody.
bool may_see(const PeerIdentity& viewer, const HistoryEvent& event);

class History {
 public:
  static constexpr std::size_t kMostEvents = 4096;

  // clock outlives this.
  explicit History(const Clock& clock, std::size_t most_events = kMostEvents)
      : clock_(clock), most_events_(most_events) {}

  // Gives it its number, and the time unless it has one.
  void add(HistoryEvent event);
  // The number of the newest event; 0 = nothing has happened.
  std::uint64_t newest() const { return newest_; }
  struct Page {
    std::vector<const HistoryEvent*> events;  // oldest first; valid until the next add()
    std::uint64_t through = 0;  // nothing with a number up to this one follows on a later page
    std::uint64_t dropped = 0;  // of those, how many are not here any more, of all users
  };
  // The events with greater numbers, `at_most` of them.
  Page after(std::uint64_t number, std::size_t at_most) const;

 private:
  using Events = std::deque<HistoryEvent>;
  static Events::const_iterator first_after(const Events& events, std::uint64_t number);

  const Clock& clock_;
  const std::size_t most_events_;
  std::uint64_t newest_ = 0;
  std::size_t count_ = 0;
  std::map<uid_t, Events> by_uid_;  // each in the order of numbers, none empty
};

}  // namespace memlease::server
