// More connections than the daemon has file descriptors: it serves again by itself once they go.
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "client/channel/attach_client.h"
#include "gmock/gmock.h"
#include "tests/integration/raw_control.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"
#include "tests/support/unix_socket.h"
#include "wire/error.h"
#include "wire/unique_fd.h"

namespace memlease::testing {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;
using wire::UniqueFd;

std::vector<UniqueFd> flood(const std::string& path, int type, int count) {
  std::vector<UniqueFd> sockets;
  for (int i = 0; i < count; ++i) {
    // A full backlog refuses; that is part of a flood.
    UniqueFd socket = connect_unix(path, type | SOCK_NONBLOCK);
    if (socket) sockets.push_back(std::move(socket));
  }
  return sockets;
}

TEST(Flood, EndsAndServiceReturns) {
  PrivateDaemon daemon({"--log-level=error"});
  Peer writer(daemon.directory());
  Peer reader(daemon.directory());
  for (Peer* peer : {&writer, &reader}) ASSERT_TRUE(peer->ask("connect").ok());
  ASSERT_TRUE(writer.ask("create a 3 600 512 session").ok());
  ASSERT_TRUE(writer.ask("put a 1000").ok());
  // The bystander has all that it needs of the daemon before the flood.
  ASSERT_TRUE(reader.ask("read a 0 1000").ok());
  ASSERT_TRUE(reader.ask("release a").ok());
  ASSERT_TRUE(reader.ask("watch a").ok());
  const rlimit few{128, 128};
  ASSERT_EQ(prlimit(daemon.pid(), RLIMIT_NOFILE, &few, nullptr), 0);
  for (int round = 0; round < 3; ++round) {
    const std::size_t before = daemon.open_files();
    {
      const auto attach = flood(daemon.directory() + "/attach.sock", SOCK_SEQPACKET, 300);
      const auto control = flood(daemon.directory() + "/control.sock", SOCK_STREAM, 300);
      EXPECT_GT(attach.size() + control.size(), 128U);
      // Who is there goes on: no call is needed for that.
      for (int i = 0; i < 100; ++i) ASSERT_TRUE(writer.ask("put a 1000").ok());
    }
    const auto start = Clock::now();
    Peer late(daemon.directory());
    Answer answer = late.ask("connect");
    while (!answer.ok() && Clock::now() - start < std::chrono::seconds(5)) {
      answer = late.ask("connect");
    }
    EXPECT_TRUE(answer.ok()) << answer.describe();
    EXPECT_TRUE(late.ask("read a 0 1000").ok());
    const std::chrono::duration<double> took = Clock::now() - start;
    EXPECT_LT(took.count(), 2.0) << "round " << round;
    late.kill();
    // Nothing of the flood stays open; gRPC may keep what a call needs, and the daemon a page for
    // the next session, with what holds its pages.
    while (daemon.open_files() > before + 5 && Clock::now() - start < std::chrono::seconds(5)) {
    }
    EXPECT_LE(daemon.open_files(), before + 5);
  }
  const Answer watched = reader.ask("unwatch a");
  EXPECT_TRUE(watched.ok()) << watched.describe();
}

// gRPC ends a daemon that has no descriptors for its first server.
TEST(Flood, LeavesTooFewFilesForTheFirstUser) {
  int refused = 0;
  for (rlim_t left = 0; left < 12; ++left) {
    PrivateDaemon daemon({"--log-level=error"});
    const auto call = [&] { return RawControl(daemon.directory()).list(""); };
    rlimit files{};
    ASSERT_EQ(prlimit(daemon.pid(), RLIMIT_NOFILE, nullptr, &files), 0);
    const rlimit few{daemon.open_files() + left, files.rlim_max};
    ASSERT_EQ(prlimit(daemon.pid(), RLIMIT_NOFILE, &few, nullptr), 0);
    const absl::Status answer = call();
    ASSERT_EQ(prlimit(daemon.pid(), RLIMIT_NOFILE, &files, nullptr), 0);
    ASSERT_EQ(daemon.wait(0), -1) << left << " were left";
    const absl::Status usual = call();
    EXPECT_EQ(wire::code_of(usual), wire::ErrorCode::kDenied) << usual;
    refused += wire::code_of(answer) == wire::code_of(usual) ? 0 : 1;
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, 12);
}

// Each came with two lines in the log.
TEST(Flood, OfSessionsLeavesFewLines) {
  PrivateDaemon daemon;
  for (int i = 0; i < 200; ++i) {
    const auto session = internal::AttachClient::connect(daemon.directory());
    ASSERT_TRUE(session.ok()) << session.status();
  }
  const std::string log = daemon.log();
  EXPECT_THAT(log, HasSubstr("session opened session=1 "));
  EXPECT_LT(std::count(log.begin(), log.end(), '\n'), 120) << log;
}

}  // namespace
}  // namespace memlease::testing
