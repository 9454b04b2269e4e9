// Calls reach the services of their caller's uid, until the server shuts down.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>

#include "tests/server/rpc/grpc_fixture.h"
#include "tests/support/thread_names.h"
#include "tests/support/unix_socket.h"

namespace memlease::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

TEST_F(GrpcServerTest, ACallReachesTheServicesOfItsCallersUid) {
  start();
  EXPECT_EQ(client().who_am_i(), "0");
  EXPECT_EQ(client_of(kOtherUid).who_am_i(), "12345");
  EXPECT_EQ(client().who_am_i(), "0");
}

TEST_F(GrpcServerTest, AUidsServerEndsWithItsLastConnection) {
  start();
  auto first = std::make_unique<GrpcClient>(client_of(kOtherUid));
  auto second = std::make_unique<GrpcClient>(client_of(kOtherUid));
  EXPECT_EQ(first->who_am_i(), "12345");
  EXPECT_EQ(second->who_am_i(), "12345");
  EXPECT_EQ(handlers_.services, 1);
  first.reset();
  EXPECT_TRUE(eventually_connected(1));
  EXPECT_EQ(second->who_am_i(), "12345");
  second.reset();
  EXPECT_TRUE(eventually([this] { return handlers_.services == 0; }));
  EXPECT_EQ(client_of(kOtherUid).who_am_i(), "12345");
}

TEST_F(GrpcServerTest, ALingeringServerIsUsedAgain) {
  start({.linger = seconds(3600)});
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(client().who_am_i(), "0");
    EXPECT_TRUE(eventually_connected(0));
    EXPECT_EQ(handlers_.services, 1);
  }
}

TEST_F(GrpcServerTest, AClientThatGoesCancelsItsCall) {
  start();
  wire::UniqueFd fd = connect_as(kOtherUid, path_);
  const wire::UniqueFd same(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 3));
  GrpcClient client(std::move(fd));
  auto call = std::async(std::launch::async, [&client] { return client.wait(); });
  EXPECT_TRUE(eventually([this] { return handlers_.waiting == 1; }));
  ::shutdown(same.get(), SHUT_RDWR);
  EXPECT_EQ(call.get(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(eventually([this] { return handlers_.cancelled == 1; }));
  EXPECT_TRUE(eventually([this] { return handlers_.services == 0; }));
}

TEST_F(GrpcServerTest, HealthFollowsServing) {
  const std::string check = "/grpc.health.v1.Health/Check";
  const std::string serving("\x08\x01", 2);
  const std::string not_serving("\x08\x02", 2);
  start();
  GrpcClient one = client();
  EXPECT_EQ(one.exchange(check, ""), serving);
  on_loop([this] { server_->set_serving(false); });
  EXPECT_EQ(one.exchange(check, ""), not_serving);
  EXPECT_EQ(client_of(kOtherUid).exchange(check, ""), not_serving) << "a server made later";
  EXPECT_EQ(one.who_am_i(), "0") << "calls are still answered";
  on_loop([this] { server_->set_serving(true); });
  EXPECT_EQ(one.exchange(check, ""), serving);
}

// gRPC's threads for callbacks sleep while calls come (server/rpc/call_queue.h).
TEST_F(GrpcServerTest, NoCallWaitsForThreadsThatServeCallbacks) {
  const auto some_serve_callbacks = [] { return thread_names().contains("nexting_thread"); };
  start();
  GrpcClient one = client();
  EXPECT_EQ(one.who_am_i(), "0");
  EXPECT_FALSE(some_serve_callbacks());
  EXPECT_EQ(one.who_am_i_by_callback(), "0");
  EXPECT_TRUE(eventually(some_serve_callbacks)) << "of the client; they have another name now";
}

TEST_F(GrpcServerTest, ReflectionListsTheServices) {
  start();
  const std::string list_services("\x3a\x00", 2);
  EXPECT_THAT(
      client().exchange("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                        list_services),
      ::testing::AllOf(HasSubstr("memlease.v1.Control"), HasSubstr("grpc.health.v1.Health")));
}

TEST_F(GrpcServerTest, ShutdownLetsACallEnd) {
  start();
  GrpcClient one = client();
  auto call = std::async(std::launch::async, [&one] { return one.wait(); });
  EXPECT_TRUE(eventually([this] { return handlers_.waiting == 1; }));
  std::thread shutting_down([this] {
    on_loop([this] { server_->shutdown(std::chrono::system_clock::now() + kTestTimeout); });
  });
  handlers_.release = true;
  EXPECT_EQ(call.get(), grpc::StatusCode::OK);
  shutting_down.join();
  EXPECT_EQ(handlers_.cancelled, 0);
  EXPECT_TRUE(eventually([this] { return !connect_unix(path_, SOCK_STREAM); })) << "still listens";
}

TEST_F(GrpcServerTest, ShutdownCancelsACallAtTheDeadline) {
  start();
  GrpcClient one = client();
  auto call = std::async(std::launch::async, [&one] { return one.wait(); });
  EXPECT_TRUE(eventually([this] { return handlers_.waiting == 1; }));
  on_loop([this] { server_->shutdown(std::chrono::system_clock::now() + milliseconds(50)); });
  EXPECT_NE(call.get(), grpc::StatusCode::OK);
  EXPECT_EQ(handlers_.cancelled, 1);
  EXPECT_EQ(handlers_.services, 0);
}

TEST_F(GrpcServerTest, UidsComeAndGoWithoutALeak) {
  start();
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(client_of(kOtherUid).who_am_i(), "12345");
    EXPECT_TRUE(eventually([this] { return handlers_.services == 0; }));
  }
}

}  // namespace
}  // namespace memlease::testing
