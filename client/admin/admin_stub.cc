#include "client/admin/admin_stub.h"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <optional>
#include <thread>
#include <unordered_set>
#include <utility>

#include "client/socket/connect_socket.h"
#include "google/protobuf/wrappers.pb.h"
#include "grpcpp/channel.h"
#include "grpcpp/create_channel_posix.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/support/channel_arguments.h"
#include "memlease/v1/admin.grpc.pb.h"
#include "wire/array_spec.h"
#include "wire/grpc/convert.h"
#include "wire/grpc/grpc_needs.h"
#include "wire/grpc/thread_reserve.h"
#include "wire/mutex.h"
#include "wire/place.h"

namespace memlease::internal {

struct AdminStub::Calls {
  const std::shared_ptr<grpc::Channel> channel;
  const Timeout timeout;
  const std::unique_ptr<v1::Admin::Stub> stub = v1::Admin::NewStub(channel);
  wire::Mutex mutex{};
  std::unordered_set<grpc::ClientContext*> running ABSL_GUARDED_BY(mutex) = {};
  bool canceled ABSL_GUARDED_BY(mutex) = false;

  // A call while it is under way, so that cancel() finds it.
  class Running {
   public:
    Running(Calls& calls, grpc::ClientContext& context) : calls_(calls), context_(context) {
      const wire::MutexLock lock(calls_.mutex);
      calls_.running.insert(&context_);
      if (calls_.canceled) context_.TryCancel();  // holds for the call that begins, too
    }
    ~Running() {
      const wire::MutexLock lock(calls_.mutex);
      calls_.running.erase(&context_);
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    Calls& calls_;
    grpc::ClientContext& context_;
  };

  template <typename Request, typename Reply>
  using Method = grpc::Status (v1::Admin::Stub::*)(grpc::ClientContext*, const Request&, Reply*);

  // Made again where it is turned away, until its time is over.
  template <typename Request, typename Reply>
  absl::StatusOr<Reply> call(Method<Request, Reply> method, const Request& request,
                             std::optional<Timeout> limit) {
    using Clock = std::chrono::system_clock;
    const auto end = limit ? Clock::now() + *limit : Clock::time_point::max();
    for (Timeout pause{5};; pause = std::min(2 * pause, Timeout{100})) {
      grpc::ClientContext context;
      if (limit) context.set_deadline(end);
      Reply reply;
      const Running under_way(*this, context);
      const grpc::Status status = (stub.get()->*method)(&context, request, &reply);
      if (status.ok()) return reply;
      if (!wire::is_turned_away(status) || Clock::now() + pause >= end) {
        return wire::from_grpc(status);
      }
      std::this_thread::sleep_for(pause);
    }
  }
  template <typename Request, typename Reply>
  absl::StatusOr<Reply> call(Method<Request, Reply> method, const Request& request) {
    return call(method, request, timeout);
  }
};

AdminStub::AdminStub(std::unique_ptr<Calls> calls, pid_t daemon_pid, uid_t daemon_uid)
    : calls_(std::move(calls)), daemon_pid_(daemon_pid), daemon_uid_(daemon_uid) {}

AdminStub::~AdminStub() = default;

absl::StatusOr<std::unique_ptr<AdminStub>> AdminStub::connect(const std::string& directory,
                                                              Timeout timeout) {
  if (auto room = wire::check_descriptors(); !room.ok()) return room;
  if (auto room = wire::reserve_threads("to call the daemon"); !room.ok()) return room;
  auto socket = connect_socket(directory, wire::kControlSocket, SOCK_STREAM);
  if (!socket.ok()) return socket.status();
  // The target's name becomes the authority header and nothing else; the channel owns the
  // descriptor.
  // gRPC's own limit is 4 MiB, which a list of very many sessions may exceed.
  constexpr int kMostBytes = 256 << 20;
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMostBytes);
  auto channel =
      grpc::CreateCustomInsecureChannelFromFd("memleased", socket->fd.release(), arguments);
  // NOLINTNEXTLINE(modernize-make-unique): it is an aggregate, and cannot be moved
  std::unique_ptr<Calls> calls(new Calls{std::move(channel), timeout});
  return std::unique_ptr<AdminStub>(
      new AdminStub(std::move(calls), socket->daemon_pid, socket->daemon_uid));
}

absl::StatusOr<v1::StatusReply> AdminStub::status() {
  return calls_->call(&v1::Admin::Stub::Status, v1::Empty());
}

absl::StatusOr<v1::ListArraysReply> AdminStub::list_arrays(std::string_view pattern,
                                                           bool attributes, std::string_view from) {
  if (auto status = wire::validate_pattern(pattern); !status.ok()) return status;
  v1::ListArraysRequest request;
  request.set_pattern(std::string(pattern));
  request.set_attributes(attributes);
  request.set_from(std::string(from));
  return calls_->call(&v1::Admin::Stub::ListArrays, request);
}

absl::StatusOr<v1::HoldersReply> AdminStub::list_holders(std::string_view name,
                                                         std::string_view from) {
  v1::ListHoldersRequest request;
  request.set_name(std::string(name));
  request.set_from(std::string(from));
  return calls_->call(&v1::Admin::Stub::ListHolders, request);
}

absl::StatusOr<v1::ListSessionsReply> AdminStub::list_sessions() {
  return calls_->call(&v1::Admin::Stub::ListSessions, v1::Empty());
}

absl::StatusOr<v1::MetricsReply> AdminStub::metrics() {
  return calls_->call(&v1::Admin::Stub::Metrics, v1::Empty());
}

absl::Status AdminStub::withdraw(std::string_view name) {
  v1::NameRequest request;
  request.set_name(std::string(name));
  return calls_->call(&v1::Admin::Stub::WithdrawArray, request).status();
}

absl::Status AdminStub::evict(std::uint32_t session_id) {
  v1::EvictRequest request;
  request.set_session_id(session_id);
  return calls_->call(&v1::Admin::Stub::Evict, request).status();
}

absl::StatusOr<v1::HistoryReply> AdminStub::history(std::uint64_t after, bool wait) {
  v1::HistoryRequest request;
  request.set_after(after);
  request.set_wait(wait);
  return calls_->call(&v1::Admin::Stub::History, request,
                      wait ? std::nullopt : std::optional(calls_->timeout));
}

absl::StatusOr<v1::SampleReply> AdminStub::sample(std::uint64_t known_through) {
  v1::SampleRequest request;
  request.set_known_through(known_through);
  v1::SampleReply all;
  for (;;) {
    const auto part = calls_->call(&v1::Admin::Stub::Sample, request);
    if (!part.ok()) return part.status();
    all.MergeFrom(*part);
    if (part->through() <= request.after()) break;  // 0, of the last one
    request.set_after(part->through());
  }
  all.clear_through();
  return all;
}

absl::StatusOr<v1::VerifyReply> AdminStub::verify() {
  return calls_->call(&v1::Admin::Stub::Verify, v1::Empty());
}

void AdminStub::cancel() {
  const wire::MutexLock lock(calls_->mutex);
  calls_->canceled = true;
  for (grpc::ClientContext* context : calls_->running) context->TryCancel();
}

// gRPC brings the health service but not its messages. On the wire HealthCheckRequest{service = 1}
// is a StringValue, and HealthCheckResponse{status = 1}, an enum, is an Int32Value.
absl::StatusOr<bool> AdminStub::serving() {
  constexpr int kServing = 1;
  grpc::TemplatedGenericStub<google::protobuf::StringValue, google::protobuf::Int32Value> health(
      calls_->channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + calls_->timeout);
  const google::protobuf::StringValue whole_server;
  google::protobuf::Int32Value reply;
  std::promise<grpc::Status> done;
  health.UnaryCall(&context, "/grpc.health.v1.Health/Check", grpc::StubOptions(), &whole_server,
                   &reply, [&done](grpc::Status status) { done.set_value(std::move(status)); });
  const grpc::Status status = done.get_future().get();
  if (!status.ok()) return wire::from_grpc(status);
  return reply.value() == kServing;
}

}  // namespace memlease::internal
