// The services of two uids over a channel without sockets, and a fake of the daemon around the
// core.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memlease/v1/admin.grpc.pb.h"
#include "memlease/v1/control.grpc.pb.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/control_service.h"
#include "tests/support/fake_service_host.h"
#include "wire/error.h"
#include "wire/grpc/convert.h"

namespace memlease::testing {

constexpr uid_t kUser = 1000, kStranger = 1001;

// The services of one uid's connection.
class Connection {
 public:
  Connection(server::ServiceHost& host, uid_t uid) : control_(host, uid), admin_(host, uid) {
    grpc::ServerBuilder builder;
    builder.RegisterService(&control_);
    builder.RegisterService(&admin_);
    queue_ = std::make_unique<server::CallQueue>(builder.AddCompletionQueue());
    server_ = builder.BuildAndStart();
    admin_.expect_calls(*queue_);
    channel_ = server_->InProcessChannel({});
  }
  ~Connection() { server_->Shutdown(); }

  template <typename Stub, typename Request, typename Reply>
  absl::Status ask(grpc::ClientContext& context,
                   grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                   const Request& request, Reply& reply, const server::Session* session = nullptr) {
    if (session != nullptr) {
      const auto bytes = credential_of(*session);
      context.AddMetadata("memlease-token-bin", std::string(bytes.begin(), bytes.end()));
    }
    Stub stub(channel_);
    return wire::from_grpc((stub.*method)(&context, request, &reply));
  }
  // "OK", or the name of the error.
  template <typename Stub, typename Request, typename Reply>
  std::string call(grpc::ClientContext& context,
                   grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                   const Request& request, Reply& reply, const server::Session* session = nullptr) {
    const auto status = ask(context, method, request, reply, session);
    return status.ok() ? "OK" : std::string(wire::name_of(wire::code_of(status)));
  }
  template <typename Stub, typename Request, typename Reply>
  std::string call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                   const Request& request, Reply& reply, const server::Session* session = nullptr) {
    grpc::ClientContext context;
    return call(context, method, request, reply, session);
  }

  std::string create(const wire::ArraySpec& spec, const server::Session* session) {
    v1::CreateRequest request;
    *request.mutable_spec() = wire::to_proto(spec);
    opened.Clear();
    return call(&v1::Control::Stub::Create, request, opened, session);
  }
  std::string evict(const server::Session& session) {
    v1::EvictRequest request;
    request.set_session_id(wire::to_int(session.id));
    v1::Empty reply;
    return call(&v1::Admin::Stub::Evict, request, reply);
  }

  // The arrays of the events; sets `seen` and `answer`, unless a context of the caller's is given.
  std::vector<std::string> history(std::uint64_t after, bool wait = false,
                                   grpc::ClientContext* context = nullptr) {
    v1::HistoryRequest request;
    request.set_after(after);
    request.set_wait(wait);
    v1::HistoryReply reply;
    grpc::ClientContext own;
    const std::string said =
        call(context == nullptr ? own : *context, &v1::Admin::Stub::History, request, reply);
    std::vector<std::string> arrays;
    for (const auto& event : reply.events()) arrays.push_back(event.array());
    if (context == nullptr) {
      seen = std::move(reply);
      answer = said;
    }
    return arrays;
  }

  v1::OpenReply opened;  // by the last create()
  v1::HistoryReply seen;
  std::string answer;

 private:
  server::ControlService control_;
  server::AdminService admin_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<server::CallQueue> queue_;
  std::shared_ptr<grpc::Channel> channel_;
};

class Services : public ::testing::Test {
 protected:
  static wire::ArraySpec on_gpu(const std::string& name) {
    auto spec = spec_of(name, 0600, 2);
    spec.device = "GPU-1";
    return spec;
  }

  FakeServiceHost host;
  Connection user{host, kUser};
  Connection stranger{host, kStranger};
  server::Session& session = host.world.connect(kUser);
};

}  // namespace memlease::testing
