#include "server/rpc/call_queue.h"

#include <grpcpp/completion_queue.h>

#include <utility>

namespace memlease::server {

CallQueue::CallQueue(std::unique_ptr<grpc::ServerCompletionQueue> queue)
    : queue_(std::move(queue)), thread_([this] { run(); }) {}

CallQueue::~CallQueue() {
  queue_->Shutdown();
  thread_.join();
}

void CallQueue::run() {
  void* event = nullptr;
  bool ok = false;
  while (queue_->Next(&event, &ok)) (*static_cast<Event*>(event))(ok);
}

}  // namespace memlease::server
