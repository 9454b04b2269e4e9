// Connections and messages beyond what a uid, or the server, may have.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "gmock/gmock.h"
#include "tests/server/rpc/grpc_fixture.h"
#include "tests/support/open_files.h"
#include "tests/support/unix_socket.h"

namespace memlease::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

TEST_F(GrpcServerTest, ASilentConnectionIsClosed) {
  start({.first_byte = milliseconds(100)});
  const auto begin = std::chrono::steady_clock::now();
  const wire::UniqueFd silent = connect_unix(path_, SOCK_STREAM);
  EXPECT_EQ(read_to_end(silent.get()), "");
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, milliseconds(100));
  EXPECT_LT(took, seconds(5));
  EXPECT_TRUE(eventually_connected(0));
  EXPECT_EQ(handlers_.services, 0);
}

TEST_F(GrpcServerTest, AConnectionThatSpokeOutlivesTheTimer) {
  start({.first_byte = milliseconds(100)});
  GrpcClient speaks = client();
  EXPECT_EQ(speaks.who_am_i(), "0");
  const wire::UniqueFd silent = connect_unix(path_, SOCK_STREAM);
  EXPECT_EQ(read_to_end(silent.get()), "");  // the later timer has fired, so has the earlier one
  EXPECT_TRUE(eventually_connected(1));
  EXPECT_EQ(speaks.who_am_i(), "0");
}

TEST_F(GrpcServerTest, GarbageIsCutOffAndUncharged) {
  start();
  const wire::UniqueFd fd = connect_unix(path_, SOCK_STREAM);
  const std::string garbage(4096, 'x');
  ASSERT_EQ(::send(fd.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 4096);
  EXPECT_NE(read_to_end(fd.get()), "timeout");
  EXPECT_TRUE(eventually_connected(0));
  EXPECT_EQ(client().who_am_i(), "0");
}

TEST_F(GrpcServerTest, AUidsFloodStopsOnlyThatUid) {
  quota_.set_limits({.connections = 4});
  start({.first_byte = seconds(3600), .linger = milliseconds(0)});
  std::vector<wire::UniqueFd> flood;
  for (int i = 0; i < 4; ++i) flood.push_back(connect_as(kOtherUid, path_));
  for (int i = 0; i < 50; ++i) {
    const wire::UniqueFd one_too_many = connect_as(kOtherUid, path_);
    EXPECT_EQ(read_to_end(one_too_many.get()), "");
  }
  EXPECT_EQ(client().who_am_i(), "0");

  flood.clear();
  EXPECT_TRUE(eventually_connected(0));
  EXPECT_EQ(client_of(kOtherUid).who_am_i(), "12345");
}

TEST_F(GrpcServerTest, AUidsFloodHidesNoOthersRefusals) {
  quota_.set_limits({.connections = 1});
  start({.first_byte = seconds(3600), .linger = milliseconds(0)});
  log_.set_level(server::LogLevel::kWarning);
  ::testing::internal::CaptureStderr();
  const wire::UniqueFd others = connect_as(kOtherUid, path_);
  for (int i = 0; i < 50; ++i) {
    const wire::UniqueFd one_too_many = connect_as(kOtherUid, path_);
    EXPECT_EQ(read_to_end(one_too_many.get()), "");
  }
  const wire::UniqueFd ours = connect_unix(path_, SOCK_STREAM);
  const wire::UniqueFd refused = connect_unix(path_, SOCK_STREAM);
  EXPECT_EQ(read_to_end(refused.get()), "");
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("uid 12345 uses 1 of its 1 control connections"));
  EXPECT_THAT(log, HasSubstr("uid 0 uses 1 of its 1 control connections"));
}

TEST_F(GrpcServerTest, ARefusedClientLearnsAtOnce) {
  quota_.set_limits({.connections = 1});
  start();
  GrpcClient first = client();
  EXPECT_EQ(first.who_am_i(), "0");
  GrpcClient second = client();
  second.who_am_i();
  EXPECT_EQ(second.last_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(GrpcServerTest, AllUidsShareWhatThereIs) {
  quota_.set_supply({.connections = 8});
  start();
  std::vector<wire::UniqueFd> connections;
  for (const uid_t uid : {1001, 1001, 1001, 1002}) connections.push_back(connect_as(uid, path_));
  EXPECT_TRUE(eventually_connected(4));
  for (const uid_t uid : {1001U, 1002U, kOtherUid}) {
    const wire::UniqueFd one_too_many = connect_as(uid, path_);
    EXPECT_EQ(read_to_end(one_too_many.get()), "") << uid;
  }
  EXPECT_EQ(client().who_am_i(), "0") << "root comes all the same";
  EXPECT_TRUE(eventually_connected(4));
  connections.erase(connections.begin(), connections.begin() + 2);
  EXPECT_TRUE(eventually_connected(2));
  EXPECT_EQ(client_of(kOtherUid).who_am_i(), "12345");
}

// Each uid costs a server.
TEST_F(GrpcServerTest, WhoHasManyUidsConnectsByFewOfThem) {
  payers_.set({{1000, 100'000, 65'536}});
  quota_.set_limits({.connections = 100});
  start({.uids_per_account = 3, .linger = milliseconds(0)});
  std::vector<wire::UniqueFd> connections;
  for (const uid_t uid : {1000, 100'000, 165'535}) connections.push_back(connect_as(uid, path_));
  EXPECT_TRUE(eventually_connected(3));
  const wire::UniqueFd one_too_many = connect_as(100'001, path_);
  EXPECT_EQ(read_to_end(one_too_many.get()), "");
  connections.push_back(connect_as(100'000, path_));
  EXPECT_TRUE(eventually_connected(4)) << "another connection of one that is there";
  EXPECT_EQ(client_of(165'536).who_am_i(), "165536") << "somebody else";
  EXPECT_EQ(on_loop([&] { return quota_.used_by(1000).connections; }), 4U);
  connections.pop_back();
  connections.pop_back();
  EXPECT_TRUE(eventually_connected(2));
  EXPECT_EQ(client_of(100'001).who_am_i(), "100001");
}

TEST_F(GrpcServerTest, TheBooksAreOnAllConnectionsAndMayRefuseThem) {
  std::map<uid_t, int> booked;  // the loop's
  book_.connected = [&](uid_t uid) {
    if (booked[uid] == 2) return absl::ResourceExhaustedError("two are enough");
    ++booked[uid];
    return absl::OkStatus();
  };
  book_.disconnected = [&](uid_t uid) { --booked[uid]; };
  start();
  GrpcClient ours = client();
  EXPECT_EQ(ours.who_am_i(), "0");
  std::vector<wire::UniqueFd> connections;
  for (int i = 0; i < 2; ++i) connections.push_back(connect_as(kOtherUid, path_));
  const wire::UniqueFd refused = connect_as(kOtherUid, path_);
  EXPECT_EQ(read_to_end(refused.get()), "");
  EXPECT_EQ(on_loop([&] { return booked; }), (std::map<uid_t, int>{{0, 1}, {kOtherUid, 2}}));
  connections.clear();
  EXPECT_TRUE(eventually_connected(1));
  EXPECT_EQ(on_loop([&] { return booked; }), (std::map<uid_t, int>{{0, 1}, {kOtherUid, 0}}));
  EXPECT_EQ(client_of(kOtherUid).who_am_i(), "12345");
  stop();  // which tells the books
}

// While a flood holds every descriptor, connections are closed; when it ends, service is back
// without anybody's help. gRPC's own listener fails this.
TEST_F(GrpcServerTest, ServiceReturnsAfterTheLastDescriptorIsGone) {
  start({.first_byte = seconds(3600), .linger = milliseconds(0)});
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  int done[2];
  ASSERT_EQ(::pipe2(done, O_CLOEXEC), 0);
  constexpr int kTooMany = 60;
  const rlimit scarce{open_files().size() + 20, before.rlim_max};
  // Before the flood begins: what comes while there is room is served for ever.
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &scarce), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // if this test crashes
    if (::setrlimit(RLIMIT_NOFILE, &before) != 0) ::_exit(1);
    std::vector<wire::UniqueFd> flood;
    for (int i = 0; i < 100; ++i) flood.push_back(connect_unix(path_, SOCK_STREAM));
    std::vector<pollfd> states;
    for (const wire::UniqueFd& fd : flood) states.push_back({fd.get(), POLLIN, 0});
    while (::poll(states.data(), states.size(), -1) < kTooMany) std::this_thread::yield();
    if (::write(done[1], "x", 1) != 1) ::_exit(1);
    ::pause();
  }
  char byte = 0;
  ASSERT_EQ(::read(done[0], &byte, 1), 1);  // so many have been closed, and the others are served
  EXPECT_GT(on_loop([this] { return server_->connections(); }), 0U);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ::close(done[0]);
  ::close(done[1]);
  EXPECT_TRUE(eventually_connected(0));
  EXPECT_EQ(client().who_am_i(), "0");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST_F(GrpcServerTest, ATooLargeMessageCostsOnlyItsCall) {
  start();
  GrpcClient one = client();
  one.who_am_i(std::string(100'000, 'x'));
  EXPECT_EQ(one.last_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(one.who_am_i(std::string(60'000, 'x')), "0");
  EXPECT_TRUE(eventually_connected(1));
}

// It is small as it comes, and not when it has been taken apart.
TEST_F(GrpcServerTest, ACompressedMessageIsNotTakenApart) {
  start();
  GrpcClient one = client();
  constexpr std::size_t kFits = 60'000;
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    for (const std::size_t size : {kFits, std::size_t{50} << 20}) {
      EXPECT_THAT(one.who_am_i(std::string(size, 'x'), algorithm), HasSubstr("ompression"));
      EXPECT_EQ(one.last_code(), grpc::StatusCode::UNIMPLEMENTED);
    }
  }
  EXPECT_EQ(one.who_am_i(std::string(kFits, 'x')), "0");
  EXPECT_TRUE(eventually_connected(1));
}

TEST_F(GrpcServerTest, AsManyCallsOfOneUidAsAConnectionHasStreamsRunAtOnce) {
  start();
  GrpcClient one = client();
  std::vector<std::future<grpc::StatusCode>> calls;
  for (int i = 0; i < 64; ++i) {
    calls.push_back(std::async(std::launch::async, [&one] { return one.wait(); }));
  }
  EXPECT_TRUE(eventually([this] { return handlers_.waiting == 64; }));
  handlers_.release = true;
  for (auto& call : calls) EXPECT_EQ(call.get(), grpc::StatusCode::OK);
}

}  // namespace
}  // namespace memlease::testing
