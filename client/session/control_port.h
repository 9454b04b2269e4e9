// Port: what a client asks the daemon for by calls. Implemented by ControlStub
// (client/rpc/control_stub.h), in tests by FakeControl (tests/support/fake_control.h) and
// LocalDaemon (tests/support/local_daemon.h). Reached by Session::control(), and called by whatever
// of client/api and client/arrays needs the daemon; also by ImportCache and GpuArray. Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/session/file_source.h"
#include "client/session/interrupt.h"
#include "wire/array_spec.h"
#include "wire/attributes.h"
#include "wire/ids.h"

namespace memlease::internal {

// Whose array it must be, by the uid that the daemon sees; none: whosever it is.
using OwnerUid = std::optional<std::uint32_t>;

struct Subscribed {
  wire::RowRef row;
};

// Of an array that is open.
struct ArrayFacts {
  wire::ArrayId id{0};
  std::uint32_t owner_uid = 0;
  std::uint32_t owner_gid = 0;
  wire::FileRange board_record;
  absl::InlinedVector<wire::FileRange, 1> slots;
  std::uint64_t slot_bytes = 0;
  bool may_write = false;
};

// Of which most arrays have nothing.
struct RareFacts {
  wire::SharedAttributes attributes;  // none of a replica: its array has them
  // Of a replica: its array, and its bit in the board's `elsewhere`.
  std::optional<wire::ArrayId> home;
  std::uint32_t replica_number = 0;
  wire::FileRange events;  // of its slots; file 0: on the host
  // What waits for other processes' work on the device: the stream; or, if this is not 0, the host,
  // so long at most.
  std::chrono::milliseconds host_wait_limit{0};
  friend bool operator==(const RareFacts&, const RareFacts&) = default;
};

struct OpenAnswer : ArrayFacts, RareFacts {
  wire::ArraySpec spec;
  bool created = false;
  // The daemon may have done subscribe(), too; then also whose row counts.
  std::optional<Subscribed> subscribed;
  wire::RowRef writer;
  // That came with the answer: for whoever maps the array.
  std::shared_ptr<FilesById> files;
};

struct ImportedMemory {
  wire::DeviceHandle handle{};
  std::uint64_t size_bytes = 0;
};

// What has been closed, for the daemon to know.
struct ClosedImports {
  std::vector<wire::FileId> memory;
};

// Answers of create() and open() that are given back.
struct Departure {
  wire::ArrayId array{0};
  std::uint32_t opens = 0;
  std::uint64_t number = 0;  // of DepartureNumbers, if it may be told to the daemon again
};

// A count on a page of the daemon's, and what it was.
struct CountAt {
  wire::FileRange at;
  std::uint32_t count = 0;
};

struct WriterAnswer {
  enum class State { kGranted, kOffered, kBusy };
  State state = State::kBusy;
  wire::RowRef row;
  wire::RowRef from;
  std::uint64_t offer = 0;
  // kBusy: so many others come first, and if any, this changes once it is this process's turn.
  std::uint32_t ahead = 0;
  CountAt turn{};
};

struct NameLook {
  bool exists = false;
  CountAt creations;  // what every creation changes that may be of the name
};

struct Holder {
  std::uint32_t session = 0;
  std::int32_t pid = 0;  // 0: in another PID namespace than the daemon's
  std::uint32_t uid = 0;
  std::string command;
  std::vector<std::uint64_t> versions;
  bool writing = false;
};

// Each call but silent(), session_ended(), daemon_ends() and calls() goes to the daemon and blocks
// until it answers, at most 30 s where nothing else is said. So none is made under a lock, nor in
// the steady state of reading and writing. `interrupt` is asked, without a lock, while the answer
// is late. A call fails with kDaemonLost if the daemon has gone or has ended the session, with
// kTimeout if it does not answer, with kOutOfMemory if this process has no descriptors or threads
// for it, with kForkedClient in a forked child, and with what `interrupt` says; what else it may
// fail with is said below. A failed call has changed nothing in the daemon, except where the answer
// did not come.
class ControlPort {
 public:
  virtual ~ControlPort() = default;

  // ---- Names.

  // Creates an array and opens it. With `exist_ok` an array of the same spec is opened instead,
  // which keeps its own attributes; `owner`: only of this user's. kAlreadyExists, kQuotaExceeded,
  // kOutOfMemory, kDenied (the owner, or who may have the name), kInvalidArgument (the spec, the
  // attributes, or an owner without `exist_ok`), kUnsupported (a device that the daemon does not
  // have).
  virtual absl::StatusOr<OpenAnswer> create(const wire::ArraySpec& spec,
                                            const wire::Attributes& attributes, bool exist_ok,
                                            OwnerUid owner, InterruptCheck interrupt) = 0;
  // Opens an array, which must be `owner`'s: kDenied. Whoever opens by a name mostly reads, so the
  // daemon does subscribe() with it where it can. Each answer of create() and open() is given
  // back by leave(); one that the caller does not get, because of an interrupt or the deadline, by
  // whichever side sees that. Neither sees an answer that was on its way when the call was given
  // up: then the daemon counts an open too many until the session ends. It stops nobody, as nothing
  // is held by it; the bytes of a withdrawn array wait for it. kNotFound, also for an array that
  // this process may not read.
  virtual absl::StatusOr<OpenAnswer> open(const std::string& name, OwnerUid owner,
                                          InterruptCheck interrupt) = 0;
  // Frees the name. Views, leases and memberships stay. kNotFound, kDenied.
  virtual absl::Status withdraw(const std::string& name, InterruptCheck interrupt) = 0;
  // The names that this process may read and that match: "*" any characters, "?" one, "" all. Many
  // names take several rounds, each of 30 s at most.
  virtual absl::StatusOr<std::vector<std::string>> list(const std::string& pattern,
                                                        InterruptCheck interrupt) = 0;
  // Whether this process may read an array of that name; `to_wait`: and else what CountWatch sleeps
  // on until it may be there.
  virtual absl::StatusOr<NameLook> look_up(const std::string& name, bool to_wait,
                                           InterruptCheck interrupt) = 0;

  // ---- An array that is open. kWithdrawn, once it has been left or withdrawn.

  // Opens its replica on a device, as create() and open() do; makes it unless it is there. kDenied,
  // kQuotaExceeded, kOutOfMemory, kUnsupported (the device).
  virtual absl::StatusOr<OpenAnswer> open_replica(wire::ArrayId home, const std::string& device,
                                                  InterruptCheck interrupt) = 0;
  // The replica of this number. kNotFound.
  virtual absl::StatusOr<OpenAnswer> open_replica(wire::ArrayId home, std::uint32_t number,
                                                  InterruptCheck interrupt) = 0;
  // To be called before the first version is written on this replica that its home does not have.
  virtual absl::Status write_elsewhere(wire::ArrayId replica, InterruptCheck interrupt) = 0;
  // This process's reader row: made by the first call, the same one afterwards.
  virtual absl::StatusOr<Subscribed> subscribe(wire::ArrayId array, InterruptCheck interrupt) = 0;
  // Asks for writer ownership (SlotWriter has the protocol); never waits for another writer.
  // kDenied.
  virtual absl::StatusOr<WriterAnswer> acquire_writer(wire::ArrayId array,
                                                      InterruptCheck interrupt) = 0;
  // `from` of an offer has been copied into `row`: ownership is the caller's. kBusy if the offer
  // has expired. Where the answer did not come, the next acquire_writer() says whose it is.
  virtual absl::Status confirm_writer(wire::ArrayId array, std::uint64_t offer,
                                      InterruptCheck interrupt) = 0;
  // For the writer that has found each of its `slots` slots held: one more, if it is not there yet.
  // kNoFreeSlot, kQuotaExceeded, kOutOfMemory; kBusy where a look at the slots should find one
  // free; kTimeout after `longest` already. The slot may come all the same.
  virtual absl::Status add_slot(wire::ArrayId array, std::uint32_t slots,
                                std::chrono::milliseconds longest, InterruptCheck interrupt) = 0;
  // Takes acquire_writer() back, also if there is nothing to take back. Like leave() it waits for
  // 2 s.
  virtual absl::Status cancel_writer(wire::ArrayId array) = 0;
  // Gives answers of create() and open() back, of wire::kMostDepartures arrays at most. With the
  // last one of an array go the rows and writer ownership; nothing in this process may use them any
  // more. kBusy while the daemon sees a hold, or work of a GPU; kInvalidArgument if it has been
  // left: of several arrays the first error, which does not keep the others. kTimeout after 2 s
  // already, as people wait for it who want nothing any more. A departure with a number may be told
  // again, as after an interrupt: the daemon does none twice. It may forget those below
  // `answered_below`.
  virtual absl::Status leave(std::span<const Departure> departures, std::uint64_t answered_below,
                             InterruptCheck interrupt) = 0;
  // Who holds which version now, for the text of an error. Like leave() it waits for 2 s.
  virtual absl::StatusOr<std::vector<Holder>> holders(wire::ArrayId array,
                                                      InterruptCheck interrupt) = 0;

  // ---- What a device shares by handles. The daemon keeps it until close_imports() names it, or
  // this process has exited.

  // The memory of a segment in which this process has an array open. kNotFound.
  virtual absl::StatusOr<ImportedMemory> import_memory(wire::FileId file,
                                                       InterruptCheck interrupt) = 0;
  // These are closed here. Like leave() it waits for 2 s.
  virtual absl::Status close_imports(const ClosedImports& closed) = 0;

  // The last call that could begin was not answered in time, or was interrupted as its answer was
  // late. Does not block.
  virtual bool silent() const = 0;
  // The daemon has said that it knows the session no more. Does not block.
  virtual bool session_ended() const = 0;
  // A call has failed as the daemon is about to end, or takes no connection. Does not block.
  virtual bool daemon_ends() const = 0;
  // How many rounds to the daemon have been begun. Does not block.
  virtual std::uint64_t calls() const = 0;
};

}  // namespace memlease::internal
