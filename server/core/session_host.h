// Port between the attach channel, which knows processes, and the core, which knows sessions.
// Implemented by Daemon (server/daemon.cc, under its mutex), in tests by FakeSessionHost
// (tests/support/fake_session_host.h); called by AttachServer and its AttachConnections, on the
// loop's thread alone. An implementation need not be thread-safe for that, but keeps the loop
// waiting while it runs: it makes no call, and waits for no client.
//
// The peer is untrusted; sessions that are named here are those which open_session() has given and
// which have not ended.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wire/ids.h"
#include "wire/shared_fd.h"

namespace memlease::server {

// Who a process is, as the kernel attests it.
struct PeerIdentity {
  // Whether the daemon has a number for it. One in another PID namespace has none, and all that is
  // known of it is the rest; what goes by numbers (command line, exec, /proc) is done without.
  bool has_pid() const { return pid != 0; }
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // supplementary
  std::string command;        // its command line in printable ASCII, for people; not attested.
                              // Without a pid: where it is
};

using SessionToken = std::array<std::uint8_t, 32>;

struct NewSession {
  wire::SessionId session{0};
  SessionToken token{};
};

// The last that a client has said on its connection.
enum class Farewell : std::uint8_t {
  kNone,
  kExit,     // its process exits by itself, and uses until then what it has
  kGoodbye,  // it uses nothing any more
};
constexpr std::string_view name_of(Farewell farewell) {
  return farewell == Farewell::kGoodbye ? "goodbye" : farewell == Farewell::kExit ? "exit" : "none";
}

// A shared file as a session may have it.
struct FileGrant {
  wire::SharedFd fd;  // O_RDWR or O_RDONLY, as `writable` says. The daemon's own, lent
  wire::FileKind kind = wire::FileKind::kSegment;
  std::uint64_t size_bytes = 0;
  bool writable = false;
};

// An array that has been opened with the files that it takes to read it.
struct OpenedArray {
  struct File {
    wire::FileId id{0};
    FileGrant grant;
  };
  std::string answer;  // of the call, serialized; empty: nothing has been done
  std::vector<File> files;
};

class SessionHost {
 public:
  virtual ~SessionHost() = default;
  // Charges the uid's quota of sessions. kQuotaExceeded; kDaemonUnavailable once it drains.
  virtual absl::StatusOr<NewSession> open_session(const PeerIdentity& peer) = 0;
  // `writable`: a segment is wanted to be so, and is if that may be. kNotFound, also for a file
  // that its uid may not read; kOutOfMemory without a descriptor free. kQuotaExceeded: the uid's
  // sessions know too many files.
  virtual absl::StatusOr<FileGrant> fetch_file(wire::SessionId session, wire::FileId file,
                                               bool writable) = 0;
  // A call that opens an array; `request` is serialized, and the peer's. Empty where the answer
  // takes, or is, too long for the channel. What the call fails with, and kInvalidArgument for what
  // is no request.
  virtual absl::StatusOr<OpenedArray> open_array(wire::SessionId session, wire::OpeningCall call,
                                                 const std::string& request) = 0;
  // The connection has ended. The token dies. After a goodbye that is the end of the session;
  // otherwise what its process has mapped stays in force until it exits. True if exited() is still
  // awaited. Never called twice for one session.
  virtual bool hang_up(wire::SessionId session, Farewell farewell) = 0;
  // The process runs another program, so that nothing is mapped that was: the end of the session.
  // hang_up came before. False where the core cannot rely on that, and exited() is still awaited.
  virtual bool program_replaced(wire::SessionId session) = 0;
  // The process has exited (its pidfd says so). The last word on a session; hang_up came before.
  virtual void exited(wire::SessionId session) = 0;
};

}  // namespace memlease::server
