// Who sleeps is woken by whoever gives him what he waits for. Here the sleepers never look again by
// themselves, as they else do ten times a second (client/arrays/wait_limit.h): a wake-up that does
// not come is a test that does not end.
#include <signal.h>
#include <unistd.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

struct Wake {
  std::string name;
  std::uint32_t slots;
  std::vector<std::string> before;  // what the other one does first
  std::string sleeper;              // what sleeps then
  std::string waker;                // what ends it; "" = the other one is killed
  std::string code = "";            // what the sleeper is told; "" = it gets what it wants
};
void PrintTo(const Wake& wake, std::ostream* out) { *out << wake.name; }

// The array has version 1, the sleeper is its creator.
const Wake kWakes[] = {
    {"ReleaseOfTheOnlySlot", 1, {"read a 0 1000"}, "put a 3600000", "release a"},
    {"ReleaseOfTheLastSlot",
     2,
     {"read a 0 1000", "put a 1000", "read a 0 1000"},
     "put a 3600000",
     "release a"},
    {"DeathOfTheHolder", 1, {"read a 0 1000"}, "put a 3600000", ""},
    {"DeathOfTheHolderOfAll",
     2,
     {"read a 0 1000", "put a 1000", "read a 0 1000"},
     "put a 3600000",
     ""},
    {"Publish", 1, {}, "read a 1 3600000", "put a 1000"},
    {"PublishBesideOthers", 3, {}, "read a 1 3600000", "put a 1000"},
    {"DropOfTheOnlySlot", 1, {"write a 1000"}, "read a 0 3600000", "drop a", "WriteAborted"},
    {"DeathInTheOnlySlot", 1, {"write a 1000"}, "read a 0 3600000", "", "ProducerDied"},
    {"PublishForTheNextWriter", 3, {"write a 1000", "fill a"}, "put a 3600000", "publish a"},
    {"DropForTheNextWriter", 3, {"write a 1000"}, "put a 3600000", "drop a"},
    {"DeathForTheNextWriter", 3, {"write a 1000"}, "put a 3600000", ""},
    {"WithdrawForAReader", 3, {}, "read a 1 3600000", "withdraw a", "Withdrawn"},
    {"WithdrawForAWriter", 1, {"read a 0 1000"}, "put a 3600000", "withdraw a", "Withdrawn"},
};

class Wakes : public ::testing::TestWithParam<Wake> {
 protected:
  void SetUp() override {
    ASSERT_EQ(::geteuid(), 0U) << "these tests look into other processes: run them as root";
  }
  void run(Peer& peer, const std::string& command) {
    const Answer answer = peer.ask(command);
    ASSERT_TRUE(answer.ok()) << command << ": " << answer.describe();
  }

  PrivateDaemon daemon_{{"--log-level=warning"}};
  Peer sleeper_{daemon_.directory()};
  Peer other_{daemon_.directory()};
};
INSTANTIATE_TEST_SUITE_P(, Wakes, ::testing::ValuesIn(kWakes),
                         [](const auto& test) { return test.param.name; });

TEST_P(Wakes, ASleeper) {
  const Wake& wake = GetParam();
  for (Peer* peer : {&sleeper_, &other_}) run(*peer, "connect");
  run(sleeper_, "create a " + std::to_string(wake.slots) + " 600 512 persistent");
  run(sleeper_, "put a 1000");
  // What a wake-up costs is measured at the first wait, with sleeps of its own. It also subscribes:
  // a writer that begins later has the sleeper's row mapped, and must know by it, or by the board,
  // that somebody sleeps.
  EXPECT_EQ(sleeper_.ask("read a 100 1").code, "Timeout");
  for (const std::string& command : wake.before) run(other_, command);
  run(sleeper_, "sleep_soundly");
  sleeper_.say(wake.sleeper);
  ASSERT_TRUE(sleeper_.sleeps_on_words());
  if (wake.waker.empty()) {
    other_.kill();
  } else {
    run(other_, wake.waker);
  }
  const Answer answer = sleeper_.answer();
  EXPECT_EQ(answer.code, wake.code) << answer.describe();
  EXPECT_EQ(answer.ok(), wake.code.empty()) << answer.describe();
  // Who was not woken would keep this test from its end.
  if (answer.kind == Answer::Kind::kSilent) sleeper_.kill();
}

}  // namespace
}  // namespace memlease::testing
