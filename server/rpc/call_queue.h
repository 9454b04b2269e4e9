// Serves calls that may wait for long: one thread for all of a server's. gRPC's callbacks would not
// do: the threads that it has for them sleep for 0.1 s in every second in which none comes, and
// then nobody reads the connections, so that any call takes as long (callback_common.cc of 1.51).
#pragma once

#include <functional>
#include <memory>
#include <thread>

namespace grpc {
class ServerCompletionQueue;
}  // namespace grpc

namespace memlease::server {

class CallQueue {
 public:
  // What is given to gRPC as a tag, and must be there until it happens. On the queue's thread; `ok`
  // is false if what was asked for will not be.
  using Event = std::function<void(bool ok)>;

  // std::system_error if there is no thread for it.
  explicit CallQueue(std::unique_ptr<grpc::ServerCompletionQueue> queue);
  // Between the server's shutdown and its destruction. Blocks until the last event has happened.
  ~CallQueue();
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  grpc::ServerCompletionQueue& get() { return *queue_; }

 private:
  void run();

  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::thread thread_;
};

}  // namespace memlease::server
