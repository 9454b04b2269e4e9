// Clients that do not behave: whatever they send, leave out, or pass on, the daemon answers by a
// clear error, ends their connection, and goes on serving everybody else.
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "client/channel/attach_client.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "proto/wire/error.h"
#include "tests/channel/attach_fixture.h"

namespace memlease::testing {
namespace {

using internal::AttachClient;
using std::chrono::milliseconds;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::ErrorCode;
using wire::FileId;

class HostileAttach : public EachPidfdWay {
 protected:
  // That the daemon still serves others.
  void expect_service() {
    const auto sessions = host.peers.size();
    Child child([this]() -> std::string {
      const auto client = AttachClient::connect(directory);
      return client.ok() ? "" : wire::message_of(client.status());
    });
    EXPECT_EQ(finish(child), "");
    EXPECT_EQ(host.peers.size(), sessions + 1);
    run_until([&] { return host.has(fmt::format("exited {}", sessions + 1)); });
  }
};
INSTANTIATE_TEST_SUITE_P(, HostileAttach, kPidfdWays, pidfd_way_name);

std::vector<std::byte> bytes_of(const wire::Payload& payload) {
  return wire::encode_frame({0, payload});
}

struct BadMessage {
  std::string name;
  std::vector<std::byte> bytes;
  ErrorCode code = ErrorCode::kInvalidArgument;
};

// Bad at any time.
std::vector<BadMessage> bad_messages() {
  auto truncated = bytes_of(wire::ProofFrame{});
  truncated.pop_back();
  auto trailing = bytes_of(wire::ByeFrame{});
  trailing.push_back({});
  auto unknown = bytes_of(wire::ByeFrame{});
  unknown[6] = std::byte{99};
  auto foreign = bytes_of(wire::FetchFrame{FileId{1}});
  foreign[4] = std::byte{7};
  return {
      {"empty", {}},
      {"less than a header", std::vector<std::byte>(15)},
      {"no magic", std::vector<std::byte>(16)},
      {"truncated", truncated},
      {"trailing", trailing},
      {"unknown type", unknown},
      {"one byte more than a frame", std::vector<std::byte>(wire::kMaxFrameBytes + 1)},
      {"much longer than a frame", std::vector<std::byte>(20000)},
      {"another version", foreign, ErrorCode::kVersionSkew},
      {"a frame of the daemon", bytes_of(wire::ChallengeFrame{})},
      {"an error", bytes_of(wire::ErrorFrame{})},
      {"file 0", bytes_of(wire::FetchFrame{FileId{0}})},
  };
}

TEST_P(HostileAttach, EndsAConnectionThatSendsAnythingElseThanItsNextFrame) {
  serve();
  for (const bool attach_first : {false, true}) {
    for (const auto& bad : bad_messages()) {
      SCOPED_TRACE(fmt::format("{}, {}", bad.name, attach_first ? "attached" : "at first"));
      host.events.clear();
      log.clear();
      Child child([&]() -> std::string {
        RawClient client(directory);
        if (attach_first && !client.attach()) return "cannot attach";
        if (!client.send_bytes(bad.bytes)) return "cannot send";
        return client.expect_end_by(bad.code);
      });
      EXPECT_EQ(finish(child), "");
      EXPECT_THAT(log, ElementsAre(HasSubstr(" disconnected: ")));
      if (attach_first) {
        run_until([&] { return host.events.size() == 3; });
        EXPECT_THAT(host.events[1], HasSubstr("hang_up"));
      } else {
        EXPECT_THAT(host.events, ElementsAre());
      }
    }
  }
  expect_service();
}

TEST_P(HostileAttach, RefusesFramesOutOfTurn) {
  serve();
  const wire::Payload out_of_turn[] = {wire::ProofFrame{}, wire::FetchFrame{}, wire::ByeFrame{}};
  for (const auto& payload : out_of_turn) {
    Child child([&] {
      RawClient client(directory);
      client.send(payload);
      return client.expect_end_by(ErrorCode::kInvalidArgument);
    });
    EXPECT_EQ(finish(child), "");
  }
  Child again([&]() -> std::string {
    RawClient client(directory);
    if (!client.attach()) return "cannot attach";
    client.send(wire::HelloFrame{});
    return client.expect_end_by(ErrorCode::kInvalidArgument);
  });
  EXPECT_EQ(finish(again), "");
  EXPECT_EQ(log.size(), 4U);
}

TEST_P(HostileAttach, NamesBothVersionsIfTheyDoNotOverlap) {
  serve();
  Child child([&]() -> std::string {
    RawClient client(directory);
    client.send(wire::HelloFrame{2, 3, "9.9"});
    const auto frame = client.receive();
    if (!frame) return "no answer";
    const auto& error = std::get<wire::ErrorFrame>(frame->payload);
    return fmt::format("{}: {}", wire::name_of(error.code), error.message);
  });
  EXPECT_EQ(
      finish(child),
      "VersionSkew: the other side speaks version 2 to 3 of the attach protocol, this side 1");
}

TEST_P(HostileAttach, TakesNoDescriptors) {
  serve();
  for (const bool attach_first : {false, true}) {
    Child child([&]() -> std::string {
      RawClient client(directory);
      if (attach_first && !client.attach()) return "cannot attach";
      client.send_bytes(bytes_of(wire::FetchFrame{FileId{7}}), client.fd());
      return client.expect_end_by(ErrorCode::kInvalidArgument);
    });
    EXPECT_EQ(finish(child), "");
  }
  EXPECT_EQ(log.size(), 2U);
  expect_service();  // and the fixture finds no descriptor left over
}

TEST_P(HostileAttach, RefusesAWrongNonce) {
  serve();
  Child child([&]() -> std::string {
    RawClient client(directory);
    client.send(wire::HelloFrame{});
    if (!client.receive()) return "no challenge";
    client.send(wire::ProofFrame{});
    return client.expect_end_by(ErrorCode::kDenied);
  });
  EXPECT_EQ(finish(child), "");
  EXPECT_THAT(host.events, ElementsAre());
}

TEST_P(HostileAttach, RefusesTheProofOfAForkedChild) {
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

TEST_P(HostileAttach, RefusesAForkedChildsUseOfTheSession) {
  serve();
  Child child([&]() -> std::string {
    RawClient client(directory);
    if (!client.attach()) return "cannot attach";
    Child forked(
        [&] {
          client.send(wire::FetchFrame{FileId{8}}, 1);
          return client.expect_end_by(ErrorCode::kForkedClient);
        },
        {client.fd()});
    return forked.reap();
  });
  EXPECT_EQ(finish(child), "");
  run_until([&] { return host.has("exited 1"); });
  EXPECT_THAT(host.events, ElementsAre("open 1", "hang_up 1", "exited 1"));
}

rlim_t first_free_fd() {
  const wire::UniqueFd fd(::dup(0));
  return static_cast<rlim_t>(fd.get());
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

TEST_P(HostileAttach, RefusesAConnectionWhoseConnectorHasExited) {
  listen();
  Gate gate;
  connect_and_exit(directory, gate);
  serve();
  gate.open();
  run_until([&] { return !log.empty(); });
  EXPECT_THAT(log, ElementsAre(HasSubstr("has exited")));
  EXPECT_THAT(host.events, ElementsAre());
}

TEST_P(HostileAttach, IsNotDeceivedByAProcessNumberUsedAgain) {
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

TEST_P(HostileAttach, DoesNotWaitLongForAHandshake) {
  options.handshake_deadline = milliseconds(30);
  serve();
  for (const bool say_hello : {false, true}) {
    Child child([&]() -> std::string {
      RawClient client(directory);
      if (say_hello) {
        client.send(wire::HelloFrame{});
        if (!client.receive()) return "no challenge";
      }
      return client.expect_end_by(ErrorCode::kTimeout);
    });
    EXPECT_EQ(finish(child), "");
  }
  EXPECT_THAT(log, ElementsAre(HasSubstr("more than 30 ms"), HasSubstr("more than 30 ms")));
}

TEST_P(HostileAttach, LimitsAUsersUnfinishedHandshakesAndNobodyElses) {
  options.unfinished_handshakes_per_uid = 2;
  serve();
  Gate gate;
  Child greedy(
      [&]() -> std::string {
        RawClient first(directory), second(directory), third(directory);
        if (auto wrong = third.expect_end_by(ErrorCode::kQuotaExceeded); !wrong.empty())
          return wrong;
        gate.wait();
        if (!first.attach()) return "the first cannot attach";
        return RawClient(directory).attach() ? "" : "a finished handshake still counts";
      },
      gate.fds());
  run_until([&] { return !log.empty(); });
  EXPECT_THAT(log, ElementsAre(HasSubstr("in the middle of connecting")));
  Child other([&]() -> std::string {
    if (::setuid(1000) != 0) return "this test needs root";
    const auto client = AttachClient::connect(directory);
    return client.ok() ? "" : wire::message_of(client.status());
  });
  EXPECT_EQ(finish(other), "");
  gate.open();
  EXPECT_EQ(finish(greedy), "");
  run_until([&] { return host.has("exited 3"); });
}

TEST_P(HostileAttach, CutsAClientThatNeverReads) {
  host.files = {{8, "extent"}};
  options.unread_deadline = milliseconds(50);
  serve();
  Gate gate;
  Child child(
      [&]() -> std::string {
        RawClient client(directory);
        if (!client.attach()) return "cannot attach";
        for (std::uint32_t i = 0; i < 100; ++i) client.send(wire::FetchFrame{FileId{8}}, i);
        gate.wait();
        const auto file = client.receive();
        if (!file || !std::holds_alternative<wire::FileFrame>(file->payload)) return "no file";
        return client.expect_end_by(ErrorCode::kTimeout);
      },
      gate.fds());
  run_until([&] { return host.has("hang_up 1"); });
  EXPECT_EQ(std::ranges::count(host.events, "fetch 1"), 1);
  EXPECT_THAT(log, ElementsAre(HasSubstr("did not read the daemon's answer for 50 ms")));
  gate.open();
  EXPECT_EQ(finish(child), "");
  expect_service();
}

TEST_P(HostileAttach, AnswersOneFetchAtATimeToAClientThatSendsAhead) {
  host.files = {{8, "extent"}};
  options.unread_deadline = std::chrono::hours(1);  // so that it is not this that goes on
  serve();
  Gate gate;
  Child child(
      [&]() -> std::string {
        RawClient client(directory);
        if (!client.attach()) return "cannot attach";
        for (std::uint32_t i = 0; i < 50; ++i) client.send(wire::FetchFrame{FileId{8}}, i);
        gate.wait();
        for (std::uint32_t i = 0; i < 50; ++i) {
          const auto file = client.receive();
          if (!file || file->request_id != i) return fmt::format("no answer to {}", i);
        }
        return "";
      },
      gate.fds());
  run_until([&] { return host.has("fetch 1"); });
  expect_service();  // plenty of turns in which more could be answered
  EXPECT_EQ(std::ranges::count(host.events, "fetch 1"), 1);
  gate.open();
  EXPECT_EQ(finish(child), "");
  EXPECT_EQ(std::ranges::count(host.events, "fetch 1"), 50);
  run_until([&] { return host.has("exited 1"); });
}

// With an even and an odd number of descriptors left, since a client needs two: one of them runs
// out at accept, the other at the pidfd.
TEST_P(HostileAttach, ServiceReturnsByItselfAfterAFloodOfConnections) {
  options.unfinished_handshakes_per_uid = 1000;
  serve();
  rlimit normal{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &normal), 0);
  std::size_t at_accept = 0;
  for (const rlim_t left : {10U, 11U}) {
    log.clear();
    const auto attached = host.peers.size();
    Gate gate;
    Child flood(
        [&]() -> std::string {
          std::vector<std::unique_ptr<RawClient>> clients;
          for (int i = 0; i < 200; ++i) clients.push_back(std::make_unique<RawClient>(directory));
          gate.wait();
          return "";
        },
        gate.fds());
    Child innocent(
        [&]() -> std::string {
          gate.wait();
          RawClient client(directory);
          return client.attach() ? "" : "cannot attach";
        },
        gate.fds());
    const rlimit low{first_free_fd() + left, normal.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
    run_until([&] { return log.size() > 150; });
    const std::string line = log[100];  // checked later: a sanitizer needs descriptors to do so
    at_accept += line.find("no free file descriptor") != std::string::npos ? 1 : 0;
    flood.kill();
    EXPECT_EQ(finish(flood), "signal 9");
    run_until([&] { return first_free_fd() <= low.rlim_cur - left; });
    gate.open();  // the limit is as low as before
    EXPECT_EQ(finish(innocent), "");
    run_until([&] { return host.has(fmt::format("exited {}", attached + 1)); });
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &normal), 0);
    EXPECT_THAT(line, AnyOf(HasSubstr("no free file descriptor"), HasSubstr("Too many open")));
  }
  EXPECT_EQ(at_accept, 1U);
}

}  // namespace
}  // namespace memlease::testing
