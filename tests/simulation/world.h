// The daemon's core on simulated ports, and the processes that use it: what a command acts on, and
// the books that say in plain terms what must be so. One thread; nothing here depends on anything
// but the seed that the commands come from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/broker.h"
#include "tests/simulation/plain_memory.h"
#include "tests/simulation/process.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_gpu.h"

namespace memlease::simulation {

// What is wrong on purpose, for a simulation that must find it.
enum class Lie : std::uint8_t {
  kNone,
  kShortSegments,  // a driver gives half of what was asked for
  kKeepsGarbage,   // what the daemon has let go is never closed
  kFalseGroup,     // the kernel names a group that a process is not in
};

struct Setup {
  server::Broker::Limits limits;
  server::DeviceLimits gpu_limits;
};

inline constexpr const char* kGpu = "GPU-1";

// What a call has charged while its memory is being made.
struct Charged {
  uid_t uid = 0;
  std::string device;
  std::uint64_t arrays = 0;
  std::uint64_t bytes = 0;       // on the device
  std::uint64_t host_bytes = 0;  // of attributes
};

// A call that may lack memory: as the daemon takes it, in rounds.
struct Request {
  wire::SessionId session{0};
  Charged charged;
  using Lacking = absl::StatusOr<std::optional<server::SegmentPool::Growth>>;
  std::function<Lacking(Process&, server::Session&)> call;
  bool may_wait = true;  // for what has gone to be given back
};

// What stands in a slot.
struct Bytes {
  wire::ArrayId array{0};
  std::uint64_t version = 0;
  bool complete = false;
};

struct Numbers {
  std::uint64_t begun = 0;      // the highest that a write has had
  std::uint64_t published = 0;  // the newest version that was published
  // A process died whose work on a GPU was not over: what it had published may be lost.
  bool uncertain = false;
  // A process has lied in its row of this array: what versions it has is nobody's promise now.
  bool spoilt = false;
};

// What has been, in the simulation's own words.
struct Books {
  std::map<std::pair<std::uint32_t, std::uint64_t>, Bytes> bytes;  // by file and offset
  std::map<std::uint64_t, Numbers> numbers;                        // by array
  std::map<uid_t, std::size_t> connections;
  std::uint32_t last_session = 0;
  std::uint64_t last_array = 0;
  std::uint64_t last_offer = 0;
  std::uint64_t sessions_opened = 0;
  std::uint64_t sessions_evicted = 0;
  std::uint64_t arrays_created = 0;
  bool name_board = false;      // has been made
  bool limits_changed = false;  // in the middle of the run
};

// Who uses memleasectl.
server::PeerIdentity root();

class World {
 public:
  World(const Setup& start, Lie planted);

  // What the core has disposed of goes at the end of a step, or where a call waits for it. False:
  // it cannot.
  bool give_back();
  // Everybody exits, and all is withdrawn.
  void finish();

  // ---- Whom a command means; nullptr if there is nobody.
  Process* living(std::uint32_t number) const;
  Process* connected(std::uint32_t number) const;
  Process* process_of(wire::SessionId session) const;
  static OpenedArray* opened(Process& process, std::uint32_t number);
  server::Session& session_of(const Process& process) const;
  const server::Array* array(wire::ArrayId id) const { return broker.catalog().find(id); }

  // ---- Calls.
  // Takes the call's rounds until it is done, or leaves it waiting for its memory.
  void ask(const Request& request, bool at_once);
  // The memory that a call waits for is there, or is refused.
  void grow(std::size_t number);
  // An answer to a process that opens.
  void answer_open(Process& process, const server::Broker::Opened& opened);
  // The process has gone; `cut` before if it was connected.
  void cut(Process& process);
  void exit(Process& process);
  void forget(const Process& process);
  // What was written in the slot is on its way there, until the GPU goes on.
  void record_pending(wire::ArrayId id, std::uint32_t slot);
  void let_gpu_go_on();
  // As ControlService: more of the sessions that have ended is worked off first, and what has gone
  // is given back, once, as an attempt itself may let go of something.
  template <typename Call>
  auto with_room(const Call& call) {
    bool may_wait = true;
    return with_room(call, may_wait);
  }
  template <typename Call>
  auto with_room(const Call& call, bool& may_wait) {
    for (;;) {
      auto answer = call();
      if (answer.ok() || !makes_room(answer.status(), may_wait)) return answer;
    }
  }

  // ---- What must be so.
  bool visible(const server::PeerIdentity& viewer, const server::Array& array) const;
  // The write that a process has begun; own_number: it is no copy.
  void begun(Process& process, OpenedArray& opened, const internal::WriteAttempt& attempt,
             bool own_number);
  void publish(OpenedArray& opened);
  void drop(OpenedArray& opened);
  Bytes& bytes_at(wire::FileRange place) {
    return books.bytes[{wire::to_int(place.file), place.offset}];
  }
  Numbers& numbers_of(wire::ArrayId id) { return books.numbers[wire::to_int(id)]; }

  const Lie lie;
  PlainMemory memory;
  testing::FakeClock clock;
  testing::FakeGpu gpu{kGpu};
  std::vector<std::shared_ptr<server::Garbage>> garbage;
  bool has_memory = true;  // for the core itself
  Setup setup;             // as it holds now
  server::Broker broker;
  std::vector<std::unique_ptr<Process>> processes;  // that live
  struct Waiting {
    Request request;
    server::SegmentPool::Growth growth;
  };
  std::vector<Waiting> waiting;
  Books books;
  pid_t last_pid = 100;

 private:
  bool makes_room(const absl::Status& status, bool& may_wait);
  // True if the call waits for memory now, as the last one.
  bool round(Request request);

  std::uint8_t last_random_ = 0;
};

}  // namespace memlease::simulation
