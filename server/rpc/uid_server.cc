#include "server/rpc/uid_server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_posix.h>

#include <memory>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "server/rpc/thread_shortage.h"
#include "wire/error.h"
#include "wire/grpc/grpc_needs.h"
#include "wire/grpc/missed_threads.h"
#include "wire/grpc/thread_reserve.h"
#include "wire/mutex.h"

namespace memlease::server {
namespace {

// The peer is any process that may connect. Arrays never travel here, so what it says is small.
constexpr int kMaxReceiveBytes = 64 * 1024;
// What gRPC's clients take: lists of all holders of thousands of arrays.
constexpr int kMaxSendBytes = 4 * 1024 * 1024;
constexpr int kMaxMetadataBytes = 8 * 1024;
constexpr int kMaxPingStrikes = 2;
constexpr std::size_t kMemoryBytes = std::size_t{64} << 20;
// An answer that nobody takes keeps one, and half a MiB. gRPC turns away calls for which it has
// none, some also where it nearly has none: they come again (wire::is_turned_away).
constexpr int kMaxThreads = 72;

// What a server may use. A thread that it did not get it counts for ever: it may have one more.
class ServerQuota {
 public:
  ServerQuota() { quota_.Resize(kMemoryBytes).SetMaxThreads(kMaxThreads); }
  const grpc::ResourceQuota& for_grpc() const { return quota_; }
  void add_thread() {
    const wire::MutexLock lock(mutex_);
    quota_.SetMaxThreads(++max_threads_);
  }

 private:
  wire::Mutex mutex_;
  int max_threads_ ABSL_GUARDED_BY(mutex_) = kMaxThreads;
  grpc::ResourceQuota quota_{"memlease"};
};

// What is compressed may be a thousand times as much, and gRPC looks at how much it is when it has
// it: it is not taken apart at all.
void refuse_compression(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
}

void add_reflection() {
  static const bool added = [] {
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    return true;
  }();
  static_cast<void>(added);
}

}  // namespace

absl::StatusOr<std::unique_ptr<UidServer>> UidServer::start(GrpcServices services) {
  // gRPC aborts where a new server gets no descriptors, or no thread to poll its connections.
  if (auto status = wire::check_descriptors("to answer a user"); !status.ok()) return status;
  if (auto status = wire::reserve_threads("to answer a user"); !status.ok()) return status;
  const absl::Cleanup the_rest = wire::release_reserved_threads;
  const auto quota = std::make_shared<ServerQuota>();
  const wire::MissedThreads missed([quota] { quota->add_thread(); });
  add_reflection();
  std::unique_ptr<UidServer> result(new UidServer(std::move(services)));
  grpc::ServerBuilder builder;
  for (const auto& service : result->services_.all) builder.RegisterService(service.get());
  builder.RegisterService(&result->health_);
  builder.SetMaxReceiveMessageSize(kMaxReceiveBytes);
  builder.SetMaxSendMessageSize(kMaxSendBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMaxMetadataBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, wire::kCallsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, kMaxPingStrikes);
  refuse_compression(builder);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
  builder.SetResourceQuota(quota->for_grpc());
  try {
    result->queue_ = std::make_unique<CallQueue>(builder.AddCompletionQueue());
  } catch (const std::system_error& error) {
    return thread_shortage("no thread is left for gRPC", error);
  }
  result->server_ = builder.BuildAndStart();
  if (!result->server_) return wire::defect("gRPC does not start a server");
  result->services_.expect_calls(*result->queue_);
  return result;
}

UidServer::UidServer(GrpcServices services) : services_(std::move(services)) {}

UidServer::~UidServer() {
  if (server_) shutdown(std::chrono::system_clock::now());
}

void UidServer::adopt(wire::UniqueFd connection) {
  grpc::AddInsecureChannelFromFd(server_.get(), connection.release());
}

void UidServer::set_serving(bool serving) { health_.set_serving(serving); }

void UidServer::shutdown(std::chrono::system_clock::time_point deadline) {
  server_->Shutdown(deadline);
}

UidServerReaper::~UidServerReaper() {
  {
    const wire::MutexLock lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void UidServerReaper::reap(std::unique_ptr<UidServer> server,
                           std::chrono::system_clock::time_point deadline) {
  {
    const wire::MutexLock lock(mutex_);
    waiting_.push_back({std::move(server), deadline});
  }
  changed_.notify_one();
}

bool UidServerReaper::await(std::chrono::steady_clock::time_point until) {
  const wire::MutexLock lock(mutex_);
  while (busy_ || !waiting_.empty()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    idle_.wait_until(mutex_, until);
  }
  return true;
}

void UidServerReaper::run() {
  wire::MutexLock lock(mutex_);
  for (;;) {
    while (!ending_ && waiting_.empty()) changed_.wait(mutex_);
    if (waiting_.empty()) return;
    auto dying = std::exchange(waiting_, {});
    busy_ = true;
    lock.unlock();
    for (Dying& one : dying) {
      if (one.server) one.server->shutdown(one.deadline);
    }
    dying.clear();
    some_gone_();
    lock.lock();
    busy_ = false;
    idle_.notify_all();
  }
}

}  // namespace memlease::server
