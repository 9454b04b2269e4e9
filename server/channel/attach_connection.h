// One client's attach connection, from accept to its end. The client is not trusted.
//
// Handshake: HELLO, then a nonce (CHALLENGE) that must come back (PROOF) with a sender that the
// kernel stamps. Why that proves which process the pidfd names, even where it was opened by number
// only: numbers are unique until their process is reaped. The connector had number p; the stamped
// sender had number p after the pidfd was opened, since it knew the nonce; and the pidfd's process
// has held p from its opening to now, since it has not exited. So the last two are one process. A
// child that got the socket by fork has another number and is refused.
//
// A process in another PID namespace has no number here. Its pidfd comes from the kernel with the
// connection (SO_PEERPIDFD) and needs no proof; who sends is told by a pidfd, too, which each of
// its messages brings. On kernels from 6.5 on, before 6.9, two pidfds cannot be compared: there a
// forked child that uses the socket is not found out. It gains nothing that its parent could not
// give it, and the client library closes the socket in a child.
//
// Then files are fetched, and arrays opened with theirs, by one request at a time: while an answer
// lies unread the client's next frame waits in the socket. Descriptors in flight count against the
// daemon's uid, so that one client could otherwise stop all others: of the clients that leave an
// answer unread a few of each uid are let be, as an honest one is stopped, or has given the call up
// and reads the answer at its next one, and the others are cut.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "server/channel/opening_budget.h"
#include "server/channel/proc_view.h"
#include "server/channel/process_watch.h"
#include "server/channel/program_watch.h"
#include "server/channel/uid_quota.h"
#include "server/core/payers.h"
#include "server/core/session_host.h"
#include "server/loop/client_socket.h"
#include "server/loop/event_loop.h"
#include "wire/attach_frame.h"
#include "wire/frame_socket.h"

namespace memlease::server {

struct AttachOptions {
  std::string daemon_version;
  wire::Incarnation incarnation{};
  // For each client of `uid` that is refused or cut; uid_t(-1): it is not known. Clients cause
  // these at will: limit the rate of each uid, and call `line` for those that are written only.
  using Line = std::function<std::string()>;
  std::function<void(uid_t uid, const Line& line)> log = [](uid_t, const Line&) {};
  std::chrono::milliseconds handshake_deadline{5000};
  std::chrono::milliseconds unread_deadline{2000};  // after it a client is late
  unsigned late_clients_per_uid = 32;
  unsigned unfinished_handshakes_per_uid = 32;
  unsigned openings_per_uid = 500;     // OpeningBudget; of others than root and the daemon's own
  PayerOf payer_of = pays_for_itself;  // whose these clients are
  std::chrono::nanoseconds slow_message = ClientSocket::kTooLong;
  // As EventLoop::add() has it; none for the daemon's own.
  std::optional<std::uint32_t> user_of(uid_t uid) const;
  PidfdWay pidfd_way = PidfdWay::kBest;
  ProgramWatch::Look look_at_program = program_of;
};

// Belongs to the loop's thread. The pointers and the pidfd outlive it.
class AttachConnection {
 public:
  AttachConnection(EventLoop* loop, SessionHost* host, const AttachOptions* options, ProcView* proc,
                   ClientSocket socket, PeerIdentity peer, int pidfd, UidQuota::Charge handshake,
                   UidQuota* late_clients, OpeningBudget* openings);
  // Closes the connection. SessionHost is not told: that is the owner's part.
  ~AttachConnection();
  AttachConnection(const AttachConnection&) = delete;
  AttachConnection& operator=(const AttachConnection&) = delete;

  // `on_end` is called once, by the loop, when the connection has ended; it destroys this object.
  absl::Status start(std::function<void()> on_end);
  // Tells the client why the connection will be closed next.
  void say_last_word(const absl::Status& reason);
  // Nothing more is sent or received, as what goes over it takes the kernel long.
  void give_up() { socket_.give_up(); }
  // As EventLoop::add() has it.
  std::optional<std::uint32_t> user() const { return options_->user_of(peer_.uid); }

  // Once the handshake is complete.
  std::optional<wire::SessionId> session() const { return session_; }
  // What the client ran when it said HELLO; nothing: it has not, or that cannot be told.
  std::optional<ProgramMark> program() const { return program_; }
  // What the client has said last, also what still waits in the socket.
  Farewell last_words();

 private:
  enum class State { kHello, kProof, kServing };

  // These return false when the connection must end.
  bool serve(std::uint32_t events);
  bool handle(const wire::Received& received);
  bool on_hello(const wire::HelloFrame& hello);
  bool on_proof(const wire::ProofFrame& proof);
  bool on_fetch(std::uint32_t request_id, const wire::FetchFrame& fetch);
  bool may_open_here();
  bool on_open(std::uint32_t request_id, const wire::OpenFrame& open);
  bool note_farewell(const wire::Payload& payload);  // false: it is none
  bool answer(std::uint32_t request_id, const wire::Payload& payload,
              std::span<const int> fds = {});
  int send(const wire::Frame& frame, std::span<const int> fds = {});
  bool took_too_long();  // always false
  bool on_unread_deadline();

  void end_unless(bool goes_on);
  wire::Received receive();
  bool is_from_peer(const wire::Received& received) const;
  bool is_from_exited_peer(const wire::Received& received) const;
  absl::Status not_from_peer(const wire::Received& received) const;
  bool reject(const absl::Status& reason);  // always false
  bool drop(const absl::Status& reason);    // the same without a word to the client
  bool is_answer_unread() const;
  void hold_back();
  void go_on_reading();
  void expect_reading();

  EventLoop* const loop_;
  SessionHost* const host_;
  const AttachOptions* const options_;
  ProcView* const proc_;
  PeerIdentity peer_;  // with its command from HELLO on
  const int pidfd_;
  ClientSocket socket_;
  UidQuota* const late_clients_;
  OpeningBudget* const openings_;
  UidQuota::Charge handshake_charge_;
  std::optional<UidQuota::Charge> late_charge_;
  std::function<void()> on_end_;

  State state_ = State::kHello;
  std::uint16_t protocol_ = wire::max_protocol();
  wire::Nonce nonce_{};
  std::optional<ProgramMark> program_;
  std::optional<wire::SessionId> session_;
  Farewell farewell_ = Farewell::kNone;
  bool holding_back_ = false;  // no frame is read until the last answer has been
  EventLoop::TimerId handshake_timer_;
  EventLoop::TimerId unread_timer_;
};

}  // namespace memlease::server
