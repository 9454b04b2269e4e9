// Who is at the other end: a session is for the process that has connected, and for no other one
// that has got hold of its connection.
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "tests/channel/attach_fixture.h"
#include "wire/error.h"

namespace memlease::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::ErrorCode;
using wire::FileId;

class AttachPeers : public EachPidfdWay {};
INSTANTIATE_TEST_SUITE_P(, AttachPeers, kPidfdWays, pidfd_way_name);

TEST_P(AttachPeers, RefusesAWrongNonce) {
  serve();
  Child child([&]() -> std::string {
    for (const bool by_a_bit : {false, true}) {
      RawClient client(directory);
      client.send(wire::HelloFrame{});
      const auto challenge = client.receive();
      if (!challenge) return "no challenge";
      wire::ProofFrame proof;
      if (by_a_bit) {
        proof.nonce = std::get<wire::ChallengeFrame>(challenge->payload).nonce;
        proof.nonce.back() ^= 1;
      }
      client.send(proof);
      const std::string ended = client.expect_end_by(ErrorCode::kDenied);
      if (!ended.empty()) return ended;
    }
    return "";
  });
  EXPECT_EQ(finish(child), "");
  EXPECT_THAT(host.events, ElementsAre());
}

TEST_P(AttachPeers, RefusesTheProofOfAForkedChild) {
  serve();
  Child child([&]() -> std::string {
    RawClient client(directory);
    client.send(wire::HelloFrame{});
    const auto challenge = client.receive();
    if (!challenge) return "no challenge";
    Child forked(
        [&] {
          client.send(wire::ProofFrame{std::get<wire::ChallengeFrame>(challenge->payload).nonce});
          return client.expect_end_by(ErrorCode::kForkedClient);
        },
        {client.fd()});
    return forked.reap();
  });
  EXPECT_EQ(finish(child), "");
  EXPECT_THAT(host.events, ElementsAre());
}

TEST_P(AttachPeers, RefusesAForkedChildsUseOfTheSession) {
  serve();
  Child child([&]() -> std::string {
    RawClient client(directory);
    if (!client.attach()) return "cannot attach";
    Child forked(
        [&] {
          client.send(wire::FetchFrame{{{FileId{8}}}}, 1);
          return client.expect_end_by(ErrorCode::kForkedClient);
        },
        {client.fd()});
    return forked.reap();
  });
  EXPECT_EQ(finish(child), "");
  run_until([&] { return host.has("exited 1"); });
  EXPECT_THAT(host.events, ElementsAre("open 1", "hang_up 1", "exited 1"));
}

// A process connects, leaves the connection to a forked child that attaches once the gate is open,
// and has exited and been reaped on return. Its number.
pid_t connect_and_exit(const std::string& directory, Gate& gate) {
  const pid_t connector = ::fork();
  if (connector != 0) {
    EXPECT_EQ(::waitpid(connector, nullptr, 0), connector);
    return connector;
  }
  RawClient client(directory);
  if (::fork() == 0) {
    gate.wait();
    client.attach();
    client.receive();  // the end
  }
  ::_exit(0);
}

TEST_P(AttachPeers, RefusesAConnectionWhoseConnectorHasExited) {
  listen();
  Gate gate;
  connect_and_exit(directory, gate);
  serve();
  gate.open();
  run_until([&] { return !log.empty(); });
  EXPECT_THAT(log, ElementsAre(HasSubstr("has exited")));
  EXPECT_THAT(host.events, ElementsAre());
}

TEST_P(AttachPeers, IsNotDeceivedByAProcessNumberUsedAgain) {
  listen();
  Gate gate;
  const pid_t connector = connect_and_exit(directory, gate);
  // An unrelated process gets the number before the daemon accepts.
  clone_args arguments{};
  arguments.exit_signal = SIGCHLD;
  arguments.set_tid = reinterpret_cast<std::uintptr_t>(&connector);
  arguments.set_tid_size = 1;
  const pid_t reused = static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof(arguments)));
  if (reused == 0) {
    while (true) ::pause();
  }
  ASSERT_EQ(reused, connector) << "this test needs root";
  serve();
  gate.open();
  run_until([&] { return !log.empty(); });
  const bool by_number = GetParam() == server::PidfdWay::kByNumber;
  EXPECT_THAT(log,
              ElementsAre(HasSubstr(by_number ? "uses the attach connection of" : "has exited")));
  EXPECT_THAT(host.events, ElementsAre());
  ::kill(reused, SIGKILL);
  EXPECT_EQ(::waitpid(reused, nullptr, 0), reused);
}

}  // namespace
}  // namespace memlease::testing
