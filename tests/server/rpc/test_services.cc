// What the services want of the daemon around the core, and for whom: over a channel without
// sockets, to a fake.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "memlease/v1/admin.grpc.pb.h"
#include "memlease/v1/control.grpc.pb.h"
#include "server/rpc/admin_service.h"
#include "server/rpc/control_service.h"
#include "tests/support/fake_service_host.h"
#include "wire/error.h"
#include "wire/grpc/convert.h"

namespace memlease::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uid_t kUser = 1000, kStranger = 1001;

// The services of one uid's connection.
class Connection {
 public:
  Connection(server::ServiceHost& host, uid_t uid) : control_(host, uid), admin_(host, uid) {
    grpc::ServerBuilder builder;
    builder.RegisterService(&control_);
    builder.RegisterService(&admin_);
    server_ = builder.BuildAndStart();
    channel_ = server_->InProcessChannel({});
  }

  // "OK", or the name of the error.
  template <typename Stub, typename Request, typename Reply>
  std::string call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                   const Request& request, Reply& reply, const server::Session* session = nullptr) {
    grpc::ClientContext context;
    if (session != nullptr) {
      const auto bytes = credential_of(*session);
      context.AddMetadata("memlease-token-bin", std::string(bytes.begin(), bytes.end()));
    }
    Stub stub(channel_);
    const auto status = wire::from_grpc((stub.*method)(&context, request, &reply));
    return status.ok() ? "OK" : std::string(wire::name_of(wire::code_of(status)));
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

  v1::OpenReply opened;  // by the last create()

 private:
  server::ControlService control_;
  server::AdminService admin_;
  std::unique_ptr<grpc::Server> server_;
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

TEST_F(Services, MemoryForAnArrayIsMadeBesideTheCore) {
  EXPECT_EQ(user.create(spec_of("a"), &session), "OK");
  EXPECT_EQ(host.grown, 1);
  EXPECT_TRUE(user.opened.created());
  EXPECT_EQ(user.opened.slots_size(), 3);
  EXPECT_EQ(user.create(spec_of("b"), &session), "OK");
  EXPECT_EQ(host.grown, 1) << "there was room for it";
}

TEST_F(Services, AGpuIsLookedForAtItsFirstArray) {
  EXPECT_EQ(user.create(on_gpu("a"), &session), "OK");
  EXPECT_EQ(user.create(on_gpu("b"), &session), "OK");
  EXPECT_THAT(host.prepared, ElementsAre("GPU-1"));
  EXPECT_EQ(user.opened.write_events_size(), 2);
}

TEST_F(Services, NobodyWithoutASessionMakesTheDaemonLookForGpus) {
  EXPECT_EQ(user.create(on_gpu("a"), nullptr), "Denied");
  EXPECT_EQ(stranger.create(on_gpu("a"), &session), "Denied") << "it is not his";
  EXPECT_THAT(host.prepared, IsEmpty());
}

TEST_F(Services, ADeviceThatThereIsNotIsTheErrorOfTheCall) {
  auto spec = on_gpu("a");
  spec.device = "GPU-2";
  EXPECT_EQ(user.create(spec, &session), "Unsupported");
  EXPECT_FALSE(host.world.broker.exists(peer_of(kUser), "a"));
}

TEST_F(Services, AShortageOfEventsIsToldToTheOperatorAndFailsNothing) {
  host.gpu.events_left = 0;
  EXPECT_EQ(user.create(on_gpu("a"), &session), "OK");
  EXPECT_EQ(host.shortages.size(), 1U);
  EXPECT_EQ(user.opened.write_events_size(), 0);
}

TEST_F(Services, OnlyTheConnectionOfWhoMayBeEvictedIsEnded) {
  EXPECT_EQ(stranger.evict(session), "NotFound");
  EXPECT_THAT(host.evicted, IsEmpty());
  EXPECT_EQ(user.evict(session), "OK");
  EXPECT_THAT(host.evicted, ElementsAre(session.id));
}

TEST_F(Services, AnswersThatAreErrorsAreCountedByCode) {
  v1::Empty reply;
  v1::NameRequest unknown;
  unknown.set_name("there/is/none");
  EXPECT_EQ(user.call(&v1::Control::Stub::Withdraw, unknown, reply, &session), "NotFound");
  EXPECT_EQ(stranger.evict(session), "NotFound");
  EXPECT_EQ(user.create(spec_of("a"), nullptr), "Denied");
  EXPECT_EQ(user.create(spec_of("a"), &session), "OK");
  EXPECT_EQ(host.errors.of(wire::ErrorCode::kNotFound), 2U);
  EXPECT_EQ(host.errors.of(wire::ErrorCode::kDenied), 1U);
  EXPECT_EQ(host.errors.of(wire::ErrorCode::kInternal), 0U);
}

TEST_F(Services, MetricsAreForAnybody) {
  v1::MetricsReply reply;
  EXPECT_EQ(stranger.call(&v1::Admin::Stub::Metrics, v1::Empty(), reply), "OK");
  EXPECT_EQ(reply.text(), "metrics 1\n");
}

TEST_F(Services, ASlotThatIsAddedIsToldToTheOperator) {
  auto spec = spec_of("a", 0600, 2);
  spec.max_slots = 3;
  ASSERT_EQ(user.create(spec, &session), "OK");
  const wire::ArrayId id{user.opened.array_id()};
  host.world.become_writer(session, id);
  wire::ReaderRow& row = host.world.subscribe(session, id);
  row.holds()[0].store(1);
  v1::AddSlotRequest request;
  request.set_array_id(wire::to_int(id));
  request.set_slots(2);
  v1::Empty reply;
  EXPECT_EQ(user.call(&v1::Control::Stub::AddSlot, request, reply, &session), "Busy")
      << "nobody holds the other one";
  EXPECT_THAT(host.added, IsEmpty());
  row.holds()[1].store(1);
  EXPECT_EQ(user.call(&v1::Control::Stub::AddSlot, request, reply, &session), "OK");
  ASSERT_EQ(host.added.size(), 1U);
  EXPECT_EQ(host.added[0].array, "a");
  EXPECT_EQ(host.added[0].slots, 3U);
}

}  // namespace
}  // namespace memlease::testing
