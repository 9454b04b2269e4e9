// A look at the history that may wait for something to see. No thread stands still for it.
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>
#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cstddef>

#include "absl/status/status.h"
#include "memlease/v1/admin.grpc.pb.h"
#include "server/core/session_host.h"
#include "server/rpc/call_queue.h"
#include "server/rpc/history_waits.h"
#include "server/rpc/service_host.h"

namespace memlease::server {

// What a user's answers hold until they have been sent, as no thread waits for that which could be
// counted. The more there is, the fewer events further answers have: who reads goes on after them.
// Thread-safe.
class UnreadEvents {
 public:
  std::size_t most_of_next() const {
    const std::size_t held = held_.load(std::memory_order_relaxed);
    return std::clamp((kMost - std::min(held, kMost)) / 8, kFewest, kMost / 8);
  }
  void add(std::size_t events) { held_.fetch_add(events, std::memory_order_relaxed); }
  void remove(std::size_t events) { held_.fetch_sub(events, std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kMost = 8192;
  static constexpr std::size_t kFewest = 4;
  std::atomic<std::size_t> held_{0};
};

class HistoryCall {
 public:
  using Service = v1::Admin::WithAsyncMethod_History<v1::Admin::Service>;
  // Where calls come from, and for whom. All outlive the calls.
  struct Source {
    Service& service;
    ServiceHost& host;
    CallQueue& queue;
    UnreadEvents& unread;
    uid_t caller;
    PeerIdentity viewer;
  };

  // Asks gRPC for the next call, which asks for the one after it. It deletes itself.
  static void expect(const Source& source) { new HistoryCall(source); }

 private:
  explicit HistoryCall(const Source& source);
  ~HistoryCall() { source_.unread.remove(held_); }
  // The queue's events.
  void on_arrival(bool ok);
  void on_end();
  void drop_reference();

  // Once, and again when something has happened. May be gone when it returns.
  void look();
  // Whoever makes an event, or ends the wait, has other things to do than to wait for this user's
  // turn: that is the queue's.
  void wake(const absl::Status& ended);
  void on_wake();
  void finish(const absl::Status& status);

  const Source source_;
  grpc::ServerContext context_;
  v1::HistoryRequest request_;
  v1::HistoryReply reply_;
  std::size_t held_ = 0;  // events of reply_
  grpc::ServerAsyncResponseWriter<v1::HistoryReply> responder_{&context_};

  CallQueue::Event arrived_ = [this](bool ok) { on_arrival(ok); };
  CallQueue::Event woken_ = [this](bool /*ok*/) { on_wake(); };
  CallQueue::Event answered_ = [this](bool /*ok*/) { drop_reference(); };
  CallQueue::Event ended_ = [this](bool /*ok*/) { on_end(); };
  int references_ = 2;  // answered_ and ended_ are to come; of the queue's thread
  grpc::Alarm alarm_;   // one wait at a time ends
  absl::Status ended_wait_;

  // Touched within with_broker() alone, as a look and a cancellation may come together.
  HistoryWaits::Id id_ = 0;
  bool cancelled_ = false;
};

}  // namespace memlease::server
