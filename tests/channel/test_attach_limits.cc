// Clients that are slow, greedy or many: they meet a limit, and nobody else notices.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/channel/attach_client.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "tests/channel/attach_fixture.h"
#include "tests/support/goal.h"
#include "tests/support/resting_user.h"
#include "wire/error.h"

namespace memlease::testing {
namespace {

using internal::AttachClient;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;
using wire::ErrorCode;
using wire::FileId;
using wire::SessionId;

class AttachLimits : public EachPidfdWay {};
INSTANTIATE_TEST_SUITE_P(, AttachLimits, kPidfdWays, pidfd_way_name);

TEST_P(AttachLimits, DoesNotWaitLongForAHandshake) {
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

TEST_P(AttachLimits, LimitsAUsersUnfinishedHandshakesAndNobodyElses) {
  options.unfinished_handshakes_per_uid = 2;
  serve();
  Gate gate;
  Child greedy(
      [&]() -> std::string {
        RawClient first(directory), second(directory), third(directory);
        if (auto wrong = third.expect_end_by(ErrorCode::kBusy); !wrong.empty()) return wrong;
        gate.wait();
        if (!first.attach()) return "the first cannot attach";
        return RawClient(directory).attach() ? "" : "a finished handshake still counts";
      },
      gate.fds());
  run_until([&] { return !log.empty(); });
  EXPECT_THAT(log, ElementsAre(HasSubstr("in the middle of connecting")));
  EXPECT_THAT(log_uids, ElementsAre(::getuid())) << "whose lines the daemon limits";
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

TEST_P(AttachLimits, AClientAsksAgainWhileOthersOfItsUserConnect) {
  options.unfinished_handshakes_per_uid = 1;
  serve();
  auto other = std::make_unique<RawClient>(directory);
  Child child([&]() -> std::string {
    const auto client = AttachClient::connect(directory);
    return client.ok() ? "" : say(client.status());
  });
  run_until([&] { return log.size() > 1; });  // it has been sent away twice
  other.reset();
  EXPECT_EQ(finish(child), "");
}

TEST_P(AttachLimits, AClientAsksAgainForSoLongAtMost) {
  options.unfinished_handshakes_per_uid = 1;
  serve();
  const RawClient other(directory);
  const auto connect = [&](internal::InterruptCheck interrupt, milliseconds longest) {
    return say(AttachClient::connect(directory, interrupt, longest).status());
  };
  const auto stayed_busy =
      AllOf(StartsWith("Timeout: "), HasSubstr("stayed busy"), HasSubstr("in the middle of"));
  Child late([&] { return connect(internal::kNoInterrupts, milliseconds(500)); });
  EXPECT_THAT(finish(late), stayed_busy);
  // The connect timeout is an interrupt check, too.
  const auto interrupt_by = [&](ErrorCode code) {
    int asked = 0;
    const auto check = [&] {
      return ++asked > 5 ? wire::make_error(code, "enough") : absl::OkStatus();
    };
    return connect(check, std::chrono::hours(1));
  };
  Child timed_out([&] { return interrupt_by(ErrorCode::kTimeout); });
  EXPECT_THAT(finish(timed_out), stayed_busy);
  Child interrupted([&] { return interrupt_by(ErrorCode::kInterrupted); });
  EXPECT_EQ(finish(interrupted), "Interrupted: enough");
}

TEST_P(AttachLimits, CutsAClientWhoseMessageTakesTheKernelLong) {
  options.slow_message = std::chrono::nanoseconds(0);
  serve();
  Child child([&]() -> std::string {
    RawClient client(directory);
    return client.attach() ? "it was served" : "";
  });
  EXPECT_EQ(finish(child), "");
  EXPECT_THAT(log, ElementsAre(HasSubstr("took the kernel very long")));
}

// All that is said to him would take the kernel long, too.
TEST_P(AttachLimits, WhoRestsIsRefusedAndCutWithoutAWord) {
  constexpr uid_t kPayer = 4711;
  options.payer_of = [](uid_t) { return kPayer; };
  options.unfinished_handshakes_per_uid = 1;
  serve();
  Gate gate;
  Child served(
      [&]() -> std::string {
        RawClient client(directory);
        if (!client.attach()) return "cannot attach";
        gate.wait();
        return client.receive() ? "there was a last word" : "";
      },
      gate.fds());
  run_until([&] { return host.has("open 1"); });
  make_rest(*loop, kPayer);
  ASSERT_TRUE(loop->rests(kPayer));
  EXPECT_TRUE(server->disconnect(SessionId{1}, wire::make_error(ErrorCode::kClosed, "", "")));
  EXPECT_TRUE(host.has("hang_up 1"));
  gate.open();
  Child refused([&]() -> std::string {
    const RawClient keeps_the_only_handshake(directory);
    RawClient client(directory);
    return client.receive() ? "it was said why" : "";
  });
  EXPECT_EQ(finish(refused), "");
  EXPECT_TRUE(loop->rests(kPayer)) << "this has shown nothing: it took too long";
  EXPECT_EQ(finish(served), "");
}

TEST_P(AttachLimits, CutsAClientThatDoesNotReadWhereTooManyDoNot) {
  host.files = {{8, "segment"}};
  options.unread_deadline = milliseconds(20);
  options.late_clients_per_uid = 0;
  serve();
  Gate gate;
  Child child(
      [&]() -> std::string {
        RawClient client(directory);
        if (!client.attach()) return "cannot attach";
        for (std::uint32_t i = 0; i < 100; ++i) client.send(wire::FetchFrame{{{FileId{8}}}}, i);
        gate.wait();
        const auto file = client.receive();
        if (!file || !std::holds_alternative<wire::FileFrame>(file->payload)) return "no file";
        return client.expect_end_by(ErrorCode::kTimeout);
      },
      gate.fds());
  run_until([&] { return host.has("hang_up 1"); });
  EXPECT_EQ(std::ranges::count(host.events, "fetch 1"), 1);
  EXPECT_THAT(log, ElementsAre(HasSubstr("did not read the daemon's answer for ")));
  gate.open();
  EXPECT_EQ(finish(child), "");
  expect_service();
}

// One that is stopped, or that makes no call after it has given one up.
TEST_P(AttachLimits, LetsAFewLateClientsOfAUserBe) {
  host.files = {{8, "segment"}};
  options.unread_deadline = milliseconds(20);
  options.late_clients_per_uid = 1;
  serve();
  const auto be_late = [&](Gate& gate) -> std::string {
    RawClient client(directory);
    if (!client.attach()) return "cannot attach";
    client.send(wire::FetchFrame{{{FileId{8}}}}, 1);
    gate.wait();
    const auto file = client.receive();
    if (!file || !std::holds_alternative<wire::FileFrame>(file->payload)) return "no file";
    client.send(wire::FetchFrame{{{FileId{8}}}}, 2);
    return client.receive() ? "" : "cut";
  };
  Gate gate, other_gate, next_gate;
  Child first([&] { return be_late(gate); }, gate.fds());
  run_until([&] { return host.has("fetch 1"); });
  Child second([&] { return be_late(other_gate); }, other_gate.fds());
  run_until([&] { return host.has("hang_up 2"); });
  EXPECT_THAT(log, ElementsAre(HasSubstr("too many others of its user")));
  EXPECT_FALSE(host.has("hang_up 1"));
  gate.open();
  EXPECT_EQ(finish(first), "");
  other_gate.open();
  finish(second);
  // The first has read its answer, so there is room for another late one.
  log.clear();
  Child third([&] { return be_late(next_gate); }, next_gate.fds());
  run_until([&] { return host.has("fetch 3"); });
  const auto until = server::EventLoop::Clock::now() + 10 * options.unread_deadline;
  run_until([&] { return server::EventLoop::Clock::now() > until; });
  next_gate.open();
  EXPECT_EQ(finish(third), "");
  EXPECT_THAT(log, ElementsAre());
}

TEST_P(AttachLimits, OfManyThatDoNotReadAllButAFewAreCutInTimeAndNobodyElse) {
  const std::size_t clients = goal(6, 64);
  host.files = {{8, "segment"}};
  options.unread_deadline = milliseconds(goal(20, 2'000));
  options.late_clients_per_uid = static_cast<unsigned>(goal(2, 32));
  serve();
  auto gate = std::make_unique<Gate>();
  std::vector<std::unique_ptr<Child>> late;
  for (std::size_t i = 0; i < clients; ++i) {
    const auto never_read = [&]() -> std::string {
      RawClient client(directory);
      if (!client.attach()) return "cannot attach";
      for (std::uint32_t request = 0; request < 20; ++request) {
        client.send(wire::FetchFrame{{{FileId{8}}}}, request);
      }
      gate->wait();
      for (auto frame = client.receive(); frame; frame = client.receive()) {
        if (std::holds_alternative<wire::ErrorFrame>(frame->payload)) return "cut";
        if (frame->request_id == 19) return "served";
      }
      return "ended without a word";
    };
    late.push_back(std::make_unique<Child>(never_read, gate->fds()));
    run_until([&] { return host.has(fmt::format("fetch {}", i + 1)); });
  }
  const auto start = server::EventLoop::Clock::now();
  Child other([&]() -> std::string {
    if (::setuid(1000) != 0) return "this test needs root";
    for (std::uint64_t i = 0; i < goal(20, 2'000); ++i) {
      const auto client = AttachClient::connect(directory);
      if (!client.ok()) return wire::message_of(client.status());
      const auto file = (*client)->fetch({FileId{8}});
      if (!file.ok()) return wire::message_of(file.status());
    }
    return "";
  });
  const std::size_t offenders = clients - options.late_clients_per_uid;
  run_until([&] { return log.size() >= offenders; });
  const auto took = server::EventLoop::Clock::now() - start;
  EXPECT_LT(took, options.unread_deadline + milliseconds(500));
  EXPECT_EQ(finish(other), "");
  gate.reset();
  std::map<std::string, std::size_t> ends;
  for (const auto& child : late) ++ends[finish(*child)];
  EXPECT_THAT(ends, ElementsAre(Pair("cut", offenders), Pair("served", clients - offenders)));
  reached(
      "{} clients that do not take their descriptors: {} of them cut within {} ms; none of "
      "{} others' fetches failed",
      clients, offenders, std::chrono::duration_cast<milliseconds>(took).count(), goal(20, 2'000));
}

TEST_P(AttachLimits, AnswersOneFetchAtATimeToAClientThatSendsAhead) {
  host.files = {{8, "segment"}};
  options.unread_deadline = std::chrono::hours(1);  // so that it is not this that goes on
  serve();
  Gate gate;
  Child child(
      [&]() -> std::string {
        RawClient client(directory);
        if (!client.attach()) return "cannot attach";
        for (std::uint32_t i = 0; i < 50; ++i) client.send(wire::FetchFrame{{{FileId{8}}}}, i);
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

rlim_t first_free_fd() {
  const wire::UniqueFd fd(::dup(0));
  return static_cast<rlim_t>(fd.get());
}

// With an even and an odd number of descriptors left, since a client needs two: one of them runs
// out at accept, the other at the pidfd.
TEST_P(AttachLimits, ServiceReturnsByItselfAfterAFloodOfConnections) {
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
