// Real programs of two releases that speak different versions of the protocol: they differ in one
// file, tests/support/next_protocol.cc or tests/support/wider_protocol.cc.
#include <string>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/in_build.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"
#include "wire/protocol.h"

namespace memlease::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kNextDaemon = "tests/memlease_next_daemon";
const Peer::Program kNextPeer{"tests/memlease_next_peer"};
constexpr const char* kWiderDaemon = "tests/memlease_wider_daemon";
const Peer::Program kWiderPeer{"tests/memlease_wider_peer"};

class OtherRelease : public ::testing::Test {
 protected:
  static std::string speaks(const std::string& who, int version) {
    return fmt::format("{} version {}", who, version);
  }
  // What it says, and that its end is none to the daemon.
  static Answer connect(PrivateDaemon& daemon, Peer& client) {
    const Answer answer = client.ask("connect");
    EXPECT_EQ(daemon.unsettled(answer.ok() ? 1 : 0), "");
    return answer;
  }
  static void expect_skew(const Answer& answer, const std::string& daemon, int library) {
    EXPECT_EQ(answer.code, "VersionSkew") << answer.describe();
    EXPECT_THAT(answer.text, HasSubstr(daemon));
    EXPECT_THAT(answer.text,
                HasSubstr(fmt::format("{}, speaks version {}", MEMLEASE_VERSION, library)));
  }

  static void expect_works(const std::string& daemon_program, const Peer::Program& peer_program) {
    PrivateDaemon daemon({}, geteuid(), daemon_program);
    Peer client(daemon.directory(), peer_program);
    for (const char* command : {"connect", "create a 3 600 8 session", "put a 1000",
                                "read a 0 1000", "release a", "close a"}) {
      const Answer answer = client.ask(command);
      EXPECT_TRUE(answer.ok()) << command << ": " << answer.describe();
    }
  }

  static constexpr int kThis = wire::kMaxProtocol;
  static constexpr int kNext = kThis + 1;
};

TEST_F(OtherRelease, OlderClientsAreToldSoByANewerDaemon) {
  PrivateDaemon daemon({}, geteuid(), kNextDaemon);
  Peer client(daemon.directory());
  expect_skew(connect(daemon, client), speaks("the newer daemon", kNext), kThis);
  Peer of_its_release(daemon.directory(), kNextPeer);
  EXPECT_TRUE(connect(daemon, of_its_release).ok()) << "others are served";
}

TEST_F(OtherRelease, NewerClientsAreToldSoByAnOlderDaemon) {
  PrivateDaemon daemon;
  Peer client(daemon.directory(), kNextPeer);
  expect_skew(connect(daemon, client), speaks("the older daemon", kThis), kNext);
  Peer of_its_release(daemon.directory());
  EXPECT_TRUE(connect(daemon, of_its_release).ok()) << "others are served";
}

TEST_F(OtherRelease, AVersionThatBothSpeakIsSpoken) {
  expect_works("bin/memleased", kWiderPeer);
  expect_works(kWiderDaemon, Peer::Program{"tests/memlease_peer"});
  expect_works(kWiderDaemon, kWiderPeer);
  expect_works(kWiderDaemon, kNextPeer);
  expect_works(kNextDaemon, kWiderPeer);
}

// Builds from between two releases have one number.
TEST_F(OtherRelease, BuildsOfOneVersionWithOtherPagesAreTold) {
  for (const bool older : {false, true}) {
    PrivateDaemon daemon({}, geteuid(), older ? "bin/memleased" : "tests/memlease_relaid_daemon");
    const Peer::Program theirs{"tests/memlease_relaid_peer"};
    Peer client(daemon.directory(), older ? theirs : Peer::Program{"tests/memlease_peer"});
    const Answer answer = connect(daemon, client);
    EXPECT_EQ(answer.code, "VersionSkew") << answer.describe();
    EXPECT_THAT(answer.text, HasSubstr("lays shared pages out otherwise"));
  }
  expect_works("tests/memlease_relaid_daemon", Peer::Program{"tests/memlease_relaid_peer"});
}

TEST_F(OtherRelease, TheDoctorSaysIt) {
  const PrivateDaemon daemon({}, geteuid(), kNextDaemon);
  const Finished doctor =
      run_program({in_build("bin/memleasectl"), "--directory=" + daemon.directory(), "doctor"});
  EXPECT_EQ(doctor.exit_code, 1);
  EXPECT_THAT(doctor.output, HasSubstr(speaks("the newer daemon", kNext)));
  const PrivateDaemon wider({}, geteuid(), kWiderDaemon);
  EXPECT_THAT(
      run_program({in_build("bin/memleasectl"), "--directory=" + wider.directory(), "doctor"})
          .output,
      HasSubstr(fmt::format("speaks protocol {}", kThis)));
}

}  // namespace
}  // namespace memlease::testing
