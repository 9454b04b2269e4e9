// The daemon's half of the attach channel: sessions begin and end here. It attests who connects,
// opens their sessions, hands them their files, and tells SessionHost when a connection ends
// (hang_up: nothing new may begin), and then when the process has exited (exited: all may be freed)
// or runs another program (program_replaced).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/channel/attach_connection.h"
#include "server/channel/opening_budget.h"
#include "server/channel/proc_view.h"
#include "server/channel/process_watch.h"
#include "server/channel/uid_quota.h"
#include "server/core/session_host.h"
#include "server/loop/acceptor.h"
#include "server/loop/event_loop.h"
#include "wire/ids.h"
#include "wire/unique_fd.h"

namespace memlease::server {

// Belongs to the loop's thread, on which it also calls `host`. Other threads use loop->post().
class AttachServer {
 public:
  // `listener` is a bound SEQPACKET socket that listens. `loop` and `host` outlive the server.
  static absl::StatusOr<std::unique_ptr<AttachServer>> start(EventLoop* loop, SessionHost* host,
                                                             wire::UniqueFd listener,
                                                             AttachOptions options);
  ~AttachServer();
  AttachServer(const AttachServer&) = delete;
  AttachServer& operator=(const AttachServer&) = delete;

  // Ends a session's connection and tells the client why; hang_up is called from within. False if
  // the session has no connection.
  bool disconnect(wire::SessionId session, const absl::Status& reason);
  // Accepts nobody any more and disconnects everybody, with hang_up for each session; their exits
  // are still reported. A repeat does nothing. Without it, the destructor closes all without a word
  // to clients or host.
  void shutdown();

 private:
  // Unique in one server, never reused.
  using ClientKey = std::uint64_t;
  // A process, from its connection on until both connection and process are gone.
  struct Client {
    pid_t pid;  // 0 in another PID namespace
    ProcessWatch process;
    std::unique_ptr<AttachConnection> connection;  // none once it has ended
    // From the connection's end on:
    std::optional<wire::SessionId> session;
    std::unique_ptr<ProgramWatch> other_program;
  };
  using Clients = std::unordered_map<ClientKey, Client>;

  AttachServer(EventLoop* loop, SessionHost* host, AttachOptions options);
  absl::Status admit(ClientSocket& socket);
  void refuse(ClientSocket socket, const absl::Status& reason);
  void log_refusal(uid_t uid, const absl::Status& reason);
  void end(ClientKey key, const absl::Status& reason);
  void connection_ended(ClientKey key);
  void process_exited(ClientKey key);
  void program_replaced(ClientKey key);

  EventLoop* const loop_;
  SessionHost* const host_;
  const AttachOptions options_;
  ProcView proc_;
  UidQuota handshakes_;
  UidQuota late_clients_;
  OpeningBudget openings_;
  std::unique_ptr<Acceptor> acceptor_;
  ClientKey last_key_ = 0;
  Clients clients_;
};

}  // namespace memlease::server
