// The gRPC server for the connections of one uid. It has no port: connections are handed to it, and
// as it has only those of its uid, its services know the caller's uid by being its services.
// Thread-safe.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "server/rpc/call_queue.h"
#include "server/rpc/health_service.h"
#include "server/rpc/service_host.h"
#include "wire/mutex.h"
#include "wire/unique_fd.h"

namespace grpc {
class Server;
class Service;
}  // namespace grpc

namespace memlease::server {

struct GrpcServices {
  std::unique_ptr<ServiceHost> host;  // what they work with, if it is theirs alone
  std::vector<std::unique_ptr<grpc::Service>> all;
  // Once the server serves: asks for the calls that the queue is to bring.
  std::function<void(CallQueue& queue)> expect_calls = [](CallQueue&) {};
};

class UidServer {
 public:
  // Adds health and reflection to the services. No service may have methods by gRPC's callbacks
  // (call_queue.h). kOutOfMemory if there are no threads for it.
  static absl::StatusOr<std::unique_ptr<UidServer>> start(GrpcServices services);
  // Cancels what is under way and waits for its handlers.
  ~UidServer();

  // A connected, non-blocking stream socket; gRPC closes it.
  void adopt(wire::UniqueFd connection);
  // What the health service answers.
  void set_serving(bool serving);
  // No new calls. Blocks until those under way have ended; at the deadline they are cancelled. One
  // whose answer is not taken ends with its connection alone.
  void shutdown(std::chrono::system_clock::time_point deadline);

 private:
  explicit UidServer(GrpcServices services);

  const GrpcServices services_;
  HealthService health_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<CallQueue> queue_;  // last: its events use the others
};

// Shuts servers down, and destroys them, on a thread of its own, because that waits for handlers.
// The thread is there from the start: later there may be none left for it. Thread-safe.
class UidServerReaper {
 public:
  // `some_gone` is called on its thread, each time.
  explicit UidServerReaper(std::function<void()> some_gone)
      : some_gone_(std::move(some_gone)), thread_([this] { run(); }) {}
  // Blocks until all have been destroyed.
  ~UidServerReaper();
  // None: what a server kept has gone, which goes on.
  void reap(std::unique_ptr<UidServer> server, std::chrono::system_clock::time_point deadline);
  // Blocks until all have been destroyed; false: it is `until` before that.
  bool await(std::chrono::steady_clock::time_point until);

 private:
  struct Dying {
    std::unique_ptr<UidServer> server;
    std::chrono::system_clock::time_point deadline;
  };
  void run();

  const std::function<void()> some_gone_;
  wire::Mutex mutex_;
  wire::CondVar changed_;  // waiting_ or ending_ has
  wire::CondVar idle_;     // there are none
  std::vector<Dying> waiting_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last, as it uses the others
};

}  // namespace memlease::server
