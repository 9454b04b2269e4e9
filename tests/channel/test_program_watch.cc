// What becomes of the session of a process that hangs up and lives on: it runs another program, or
// it does not.
#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <vector>

#include "client/channel/attach_client.h"
#include "gmock/gmock.h"
#include "server/channel/proc_view.h"
#include "server/channel/program_watch.h"
#include "tests/channel/attach_fixture.h"
#include "wire/error.h"

namespace memlease::testing {
namespace {

using internal::AttachClient;
using server::ProgramMark;
using ::testing::ElementsAre;

class Program : public AttachFixture {
 protected:
  Program() {
    options.look_at_program = [this](pid_t pid) {
      ++looks;
      loop->stop();
      return see(pid);
    };
  }
  int looks = 0;  // of which the first is at HELLO
  server::ProgramWatch::Look see = server::program_of;
};

// Attaches, and goes on with `then` instead of saying goodbye.
std::string attached(const std::string& directory, const std::function<void()>& then) {
  const auto client = AttachClient::connect(directory);
  if (!client.ok()) return wire::message_of(client.status());
  then();
  return "goes on";
}

void run_another_program() { ::execl("/bin/sleep", "sleep", "60", nullptr); }

void close_all_and_stay() {
  ::closefrom(0);
  while (true) ::pause();
}

TEST(ProgramOf, IsTheSameForAProcessAndItsFork) {
  const auto own = server::program_of(::getpid());
  ASSERT_TRUE(own);
  EXPECT_EQ(server::program_of(::getpid()), own);
  EXPECT_EQ(server::program_of(0), std::nullopt);
  Child child([own]() -> std::string { return server::program_of(::getpid()) == own ? "" : "no"; });
  EXPECT_EQ(child.reap(), "");
}

TEST(ProgramOf, ADaemonDoesNotLookAtThoseOfOthersWhereItSeesNone) {
  const auto looks_at_others = [] {
    int looks = 0;
    server::ProcView view([&](pid_t) {
      ++looks;
      return std::optional<server::ProgramMark>();
    });
    server::PeerIdentity peer;
    peer.pid = ::getpid();
    for (const uid_t uid : {::geteuid(), ::geteuid() + 1}) {
      peer.uid = uid;
      static_cast<void>(view.program_of(peer));
    }
    return looks == 2;
  };
  Child child([&]() -> std::string {
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return "stays root";
    return looks_at_others() ? "looks at others" : "";
  });
  EXPECT_EQ(child.reap(), "");
}

TEST_F(Program, OneWhoSaysNothingRightIsNotLookedAt) {
  serve();
  Child child([&]() -> std::string {
    RawClient client(directory);
    client.send_bytes(std::vector<std::byte>(8));
    return client.expect_end_by(wire::ErrorCode::kInvalidArgument);
  });
  EXPECT_EQ(finish(child), "");
  EXPECT_EQ(looks, 0);
}

TEST_F(Program, ExecEndsTheSessionOfAProcessThatLivesOn) {
  serve();
  Child child([&] { return attached(directory, run_another_program); });
  run_until([&] { return host.has("replaced 1"); });
  child.kill();
  EXPECT_EQ(finish(child), "signal 9");
  expect_service();
  EXPECT_FALSE(host.has("exited 1"));
}

TEST_F(Program, AProcessThatOnlyClosesItsDescriptorsHasItsSessionUntilItExits) {
  serve();
  Child child([&] { return attached(directory, close_all_and_stay); });
  run_until([&] { return looks == 4; });
  EXPECT_THAT(host.events, ElementsAre("open 1", "hang_up 1"));
  child.kill();
  run_until([&] { return host.has("exited 1"); });
  EXPECT_THAT(host.events, ElementsAre("open 1", "hang_up 1", "exited 1"));
}

// So it is in the middle of an exec.
TEST_F(Program, WhatCannotBeToldNowIsLookedAtAgain) {
  see = [this](pid_t) -> std::optional<ProgramMark> {
    if (looks == 1) return 1;
    if (looks < 4) return std::nullopt;
    return 2;
  };
  serve();
  Child child([&] { return attached(directory, close_all_and_stay); });
  run_until([&] { return host.has("replaced 1"); });
  EXPECT_EQ(looks, 4);
}

TEST_F(Program, WhereItCannotBeToldFromTheBeginNobodyLooksAgain) {
  see = [](pid_t) { return std::nullopt; };
  serve();
  Child child([&] { return attached(directory, run_another_program); });
  run_until([&] { return host.has("hang_up 1"); });
  expect_service();
  EXPECT_EQ(looks, 2) << "one for each client";
  child.kill();
  run_until([&] { return host.has("exited 1"); });
  EXPECT_FALSE(host.has("replaced 1"));
}

TEST_F(Program, ACoreThatCannotRelyOnItHearsOfTheExit) {
  host.ends_with_program = false;
  serve();
  Child child([&] { return attached(directory, run_another_program); });
  run_until([&] { return host.has("replaced 1"); });
  child.kill();
  run_until([&] { return host.has("exited 1"); });
  EXPECT_THAT(host.events, ElementsAre("open 1", "hang_up 1", "replaced 1", "exited 1"));
}

}  // namespace
}  // namespace memlease::testing
