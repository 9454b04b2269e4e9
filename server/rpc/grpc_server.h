// The gRPC side of the daemon: accepts connections itself, charges them to the uid that the kernel
// names, and hands each to the gRPC server of that uid. gRPC's own listener is not used: it knows
// no uids, no limits and no way back after it has run out of descriptors (docs/security.md).
//
// The peer is untrusted. A uid that opens connections without end, or opens them and stays silent,
// uses up its own share only. Between gRPC and a connection of another uid than the daemon's stands
// a relay, which cuts a flood of frames before gRPC takes memory for it.
//
// All calls belong to the loop's thread, or to any thread while the loop does not run.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/account.h"
#include "server/gate/allowance.h"
#include "server/gate/gate_cuts.h"
#include "server/gate/relay.h"
#include "server/loop/acceptor.h"
#include "server/loop/event_loop.h"
#include "server/rpc/uid_server.h"
#include "server/telemetry/log.h"
#include "wire/unique_fd.h"

namespace memlease::server {

struct GrpcLimits {
  // Uids with connections at once on one account, beside the one that pays. Each has a server, with
  // its threads and memory.
  std::uint32_t uids_per_account = 8;
  // A connection that has sent nothing for so long is closed.
  std::chrono::milliseconds first_byte{5000};
  // How long a uid's server outlives its last connection. An idle one wakes up now and then; making
  // one for each call of a shell loop costs more.
  std::chrono::milliseconds linger{1000};
  // Answers that are not taken for so long are what an account may have some of, as processes are
  // stopped now and then, 64 of a job among them; but not 36 MiB.
  std::chrono::milliseconds untaken{3000};
  // Cut for the memory that its calls kept, an account gets no new connections for so long.
  std::chrono::milliseconds kept_out{5000};
  // Of other uids than the daemon's own.
  GateLimits gate = {};
};

// Who keeps the books. Called on the loop's thread.
struct ConnectionBook {
  // Where the uid's requests are charged. It outlives the server.
  std::function<Account&(uid_t uid)> account;
  // What the uid may cause in the log.
  std::function<std::shared_ptr<LogLimiter>(uid_t uid)> log_lines;
  // Of each connection. An error: it is refused.
  std::function<absl::Status(uid_t uid)> connected = [](uid_t) { return absl::OkStatus(); };
  std::function<void(uid_t uid)> disconnected = [](uid_t) {};
  // Some times a second, while calls under way keep so much that cut_largest() would cut somebody.
  std::function<void()> calls_keep_much = [] {};
  // A user's server has gone, or calls were cut, and the heap has free what they kept. On another
  // thread.
  std::function<void()> heap_is_free = [] {};
};

class GrpcServer {
 public:
  // The services for the calls of one uid. Called on the loop's thread, when the uid's first
  // connection speaks; the services are destroyed on another thread.
  using ServiceFactory = std::function<GrpcServices(uid_t uid)>;

  // loop and log outlive the server. kOutOfMemory if there is no thread for it.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> start(EventLoop& loop, Log& log,
                                                           ServiceFactory factory,
                                                           const GrpcLimits& limits,
                                                           ConnectionBook book);
  // As shutdown() with a deadline that has passed.
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  // A listening, non-blocking stream socket.
  absl::Status add_listener(wire::UniqueFd listener);
  // What the health service answers, on all connections. True at first.
  void set_serving(bool serving);
  // For want of memory: cuts the connections of the account whose calls keep most of it, as far as
  // can be told, and as far as they have calls; not those of the daemon's own user. False, and
  // nothing is cut: all together keep so little that it would not help.
  bool cut_largest();
  // No new connections and calls. Blocks until the calls under way have ended, or have been
  // cancelled at the deadline; who has not taken his answer a second after that is cut. A repeat
  // has no effect.
  void shutdown(std::chrono::system_clock::time_point deadline);

  std::size_t connections() const { return connections_.size(); }
  // On any thread.
  const GateCuts& gate_cuts() const { return gate_cuts_; }

 private:
  using ConnectionId = std::uint64_t;  // never reused
  struct Connection {
    uid_t uid;
    pid_t pid;
    ClientSocket socket;  // until the relay has it, or gRPC
    EventLoop::TimerId first_byte;
    wire::UniqueFd end = {};  // once gRPC has it: a duplicate that notices its end
    bool adopted = false;
    std::unique_ptr<Relay> relay = nullptr;
  };
  // A uid that has connections, or a server that lingers. Its allowance lasts as long: who is cut
  // and comes back finds it as it was.
  struct User {
    User(const FrameRates& rates, Account& account_in) : allowance(rates), account(account_in) {}
    std::uint32_t connections = 0;
    std::uint32_t adopted = 0;
    std::unique_ptr<UidServer> server;
    std::optional<EventLoop::TimerId> linger;
    Allowance allowance;
    Account& account;
  };
  // What the calls of an account keep with gRPC.
  struct KeptByCalls {
    std::size_t connections = 0;
    std::size_t calls = 0;
    std::size_t answers = 0;  // that nobody takes
    std::size_t data_bytes = 0;
    std::size_t bytes() const;
  };
  using ByAccount = std::unordered_map<const Account*, KeptByCalls>;

  GrpcServer(EventLoop& loop, Log& log, ServiceFactory factory, const GrpcLimits& limits,
             ConnectionBook book);
  void on_connection(ClientSocket socket);
  absl::Status may_connect(uid_t uid, const Account& account);
  void on_first_byte(ConnectionId id);
  bool adopt(ConnectionId id, Connection& connection);
  wire::UniqueFd watch_end(ConnectionId id, Connection& connection);
  wire::UniqueFd relay(ConnectionId id, Connection& connection, User& user);
  void pass_last_words(std::chrono::system_clock::time_point deadline);
  void on_traffic();
  void cut_untaken(FrameMeter::Clock::time_point now);
  // What the calls of each account keep. Who has begun by then and waits for nothing of ours has
  // his answer, and does not take it.
  ByAccount kept_by_calls(FrameMeter::Clock::time_point begun_by) const;
  // As far as can be told.
  static std::size_t bytes_of(const ByAccount& kept);
  // Its connections that have calls. It is kept out a while.
  void cut(const Account& account, Excess excess);
  void on_relay_end(ConnectionId id, std::optional<Excess> excess);
  void close(ConnectionId id);
  void retire(uid_t uid);
  void refuse(ClientSocket socket, std::string_view reason);
  // As EventLoop::run_for().
  void run_for(uid_t uid, absl::FunctionRef<void(bool rests)> task);
  void log_refusal(uid_t uid, std::string_view reason);

  EventLoop& loop_;
  Log& log_;
  const ServiceFactory factory_;
  const ConnectionBook book_;
  const uid_t own_uid_;
  const GrpcLimits limits_;

  GateCuts gate_cuts_;
  bool serving_ = true;
  ConnectionId last_id_ = 0;
  std::unordered_map<ConnectionId, Connection> connections_;
  std::unordered_map<uid_t, User> users_;
  std::unordered_map<uid_t, EventLoop::Clock::time_point> kept_out_;  // accounts', until then
  std::optional<EventLoop::TimerId> load_timer_;                      // since there was traffic
  std::optional<EventLoop::TimerId> cut_timer_;  // since calls were cut, which take a moment to end
  // When the daemon had stood still for the last time, and its clients had not.
  FrameMeter::Clock::time_point awake_since_;
  std::vector<std::unique_ptr<Acceptor>> acceptors_;
  UidServerReaper reaper_{book_.heap_is_free};
};

}  // namespace memlease::server
