// Stands between one client and gRPC: passes bytes both ways, and measures them. It keeps no more
// than one piece of them each way: while a reply waits for the client to read, no request of that
// client is read, and while gRPC does not take a request, none either. Made by GrpcServer for each
// connection of another user. Never blocks: its sockets do not, and the loop says when they are
// ready.
//
// The client is untrusted. Belongs to the loop's thread, or to any thread while the loop does not
// run.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/gate/frame_meter.h"
#include "server/loop/client_socket.h"
#include "server/loop/event_loop.h"
#include "wire/unique_fd.h"

namespace memlease::server {

struct GateLimits {
  FrameLimits connection = {};
  FrameRates uid = kUidFrameRates;
  // A client that has taken no byte of a waiting reply for so long is cut. Long enough for a
  // process that is stopped for a while.
  std::chrono::milliseconds unread{60'000};
};

class Relay {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{8} << 10;

  // Called by the loop once, when the connection is over: cut for `excess`, or closed by one of
  // both. It may destroy the relay, which closes its descriptors; until then they are open and
  // idle.
  using Ended = std::function<void(std::optional<Excess> excess)>;
  // Called by the loop when bytes have passed, or are waiting.
  using Moved = std::function<void()>;

  // Both are connected, non-blocking stream sockets; gRPC has the other end of `server`. The loop,
  // `of_uid` and `account` (see FrameMeter) outlive the relay. kInternal: the loop cannot watch
  // them; both are closed then.
  static absl::StatusOr<std::unique_ptr<Relay>> start(EventLoop& loop, ClientSocket client,
                                                      wire::UniqueFd server,
                                                      const GateLimits& limits, Allowance& of_uid,
                                                      Account& account, Moved moved, Ended ended);
  // Closes both; ended() is not called.
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  // An answer that waits here for the client counts as one more call, also if it was the last
  // one's.
  FrameMeter::Load load(FrameMeter::Clock::time_point begun_by) const {
    FrameMeter::Load load = meter_.load(begun_by);
    if (!replies_.is_empty()) ++load.calls;
    return load;
  }

  // Passes on the last words of a server that has ended, as far as the client takes them at once.
  // For when the loop does not run any more; ended() is not called. Errors are of no interest.
  void deliver();
  // Of a client who is cut: ClientSocket::give_up().
  void give_up() { client_end_.give_up(); }

 private:
  struct Socket {
    int fd;
    std::uint32_t watched = 0;  // what the loop is asked for; 0: it does not know the socket
  };
  struct Direction {
    Socket& from;
    Socket& to;
    std::string waiting = {};  // what `to` has not taken yet
    std::size_t sent = 0;      // of it
    bool at_end = false;       // `from` has closed
    bool is_empty() const { return waiting.empty(); }
  };

  Relay(EventLoop& loop, ClientSocket client, wire::UniqueFd server, const GateLimits& limits,
        Allowance& of_uid, Account& account, Moved moved, Ended ended);
  void on_ready();
  // These are false when the connection is over; what it is cut for is in excess_.
  bool move();
  bool flush(Direction& direction);
  bool forward(Direction& direction);
  bool admit(const Direction& direction, std::span<const std::byte> bytes);
  bool watch();
  bool watch(Socket& socket, std::uint32_t events);
  void watch_unread();
  void end(std::optional<Excess> excess);
  void forget();

  EventLoop& loop_;
  const std::chrono::milliseconds unread_;
  const uid_t user_;  // of the account

  const Moved moved_;
  Ended ended_;  // until it is called
  FrameMeter meter_;
  ClientSocket client_end_;
  const wire::UniqueFd server_end_;
  Socket client_{client_end_.get()};
  Socket server_{server_end_.get()};
  Direction requests_{client_, server_};
  Direction replies_{server_, client_};
  bool replies_moved_ = false;  // since the timer was set
  std::optional<Excess> excess_;
  EventLoop::TimerId unread_timer_;
};

}  // namespace memlease::server
