// Calls that end by an interrupt or another exception, wherever one may come: the array can be
// used by everybody afterwards, in order, and nothing is left open.
#include "tests/device/fixture.h"

namespace memlease::testing {
namespace {

struct End {
  const char* name;
  std::vector<std::string> before;  // what the process has done last
  std::string plan;                 // what is to happen
  std::string last;                 // in this call
  int slots = 1;                    // whatever is kept too long keeps the others out
  // Nobody knows where its work ends: its slot comes back at the next call of the same process.
  bool kept = false;
  friend void PrintTo(const End& end, std::ostream* out) { *out << end.name; }
};

class DeviceEnds : public DeviceTest, public ::testing::WithParamInterface<End> {
 protected:
  // `unfinished`: in front of the call there is work of this process that does not end.
  void go_through(const End& end, bool unfinished) {
    Client other(daemon);
    Client victim(daemon);
    other.is_ok("create a " + std::to_string(end.slots) + " 1000 cuda:0");
    publish(other, 1);
    other.is_ok("synchronize s");
    victim.is_ok("open a");
    if (unfinished) publish_unfinished(victim, 2);
    for (const std::string& command : end.before) victim.is_ok(command);
    victim.is_ok(end.plan);
    EXPECT_EQ(error(victim, end.last), "exception") << end.last;
    victim.is_ok("ungate");
    if (end.kept) victim.is_ok("get a");
    int value = 3;
    for (Client* writer : {&other, &victim, &other}) {
      publish(*writer, ++value);
      read(other, value);
      read(victim, value);
    }
    EXPECT_EQ(other.is_ok("mismatches r"), "0");
    EXPECT_EQ(victim.is_ok("mismatches r"), "0");
  }
};

class DeviceInterrupts : public DeviceEnds {};

TEST_P(DeviceInterrupts, LeaveTheArrayToEverybody) { go_through(GetParam(), true); }

INSTANTIATE_TEST_SUITE_P(
    Waits, DeviceInterrupts,
    ::testing::Values(
        End{"publish", {"write a -"}, "interrupt 1", "publish a -"},
        End{"publish_later", {"write a -"}, "interrupt 5", "publish a -"},
        End{"update", {}, "interrupt 1", "update a -", 2}, End{"put", {}, "interrupt 1", "put a 9"},
        End{"get", {}, "interrupt 1", "get a"},
        End{"release", {"read a r", "wait a q"}, "interrupt 1", "release a -", 1, true}),
    [](const auto& tested) { return std::string(tested.param.name); });

// A release of work in several streams was interrupted, and its slot, the only one, is kept until
// it is known that the GPU is done.
class DeviceKeptSlots : public DeviceTest {
 protected:
  DeviceKeptSlots() {
    other.is_ok("create a 1 1000 cuda:0");
    publish(other, 1);
    other.is_ok("synchronize s");
    publish_unfinished(keeper, 2);
    for (const char* command : {"read a r", "wait a q", "interrupt 1"}) keeper.is_ok(command);
    EXPECT_EQ(error(keeper, "release a -"), "exception");
    keeper.is_ok("ungate");
    keeper.is_ok("synchronize s");
    other.say("write a s");
    EXPECT_TRUE(other.sleeps_on_words());
  }
  void expect_written() {
    EXPECT_TRUE(other.answer().ok());
    other.is_ok("fill a 3 s");
    other.is_ok("publish a");
  }

  Client other{daemon};
  Client keeper{daemon};
};

// Else each would wait for the other.
TEST_F(DeviceKeptSlots, ComeBackBeforeTheirProcessWaitsForAVersion) {
  keeper.say("get a");
  expect_written();
  EXPECT_EQ(keeper.answer().text, "3 3 3");
}

TEST_F(DeviceKeptSlots, ComeBackWithACallOnAnotherArray) {
  keeper.is_ok("create b 2 10 cuda:0");
  keeper.is_ok("put b 5");
  expect_written();
}

TEST_F(DeviceKeptSlots, ComeBackWhenTheirProcessLeaves) {
  keeper.is_ok("close a");
  expect_written();
}

class DeviceExceptions : public DeviceEnds {};

// A lack of memory, say.
TEST_P(DeviceExceptions, LeaveTheArrayToEverybody) { go_through(GetParam(), false); }

const std::vector<std::string> kFilling = {"write a s", "fill a 9 s"};
const std::vector<std::string> kLooking = {"read a r", "look a 1 r"};

INSTANTIATE_TEST_SUITE_P(
    Steps, DeviceExceptions,
    ::testing::Values(End{"write", {}, "throw_at device.write_ordered 1", "write a s"},
                      End{"publish", kFilling, "throw_at device.write_recorded 1", "publish a"},
                      End{"drop", kFilling, "throw_at device.write_recorded 1", "drop a s"},
                      End{"read", {}, "throw_at device.read_ordered 1", "read a r"},
                      End{"release", kLooking, "throw_at device.read_recorded 1", "release a"},
                      End{"put", {}, "throw_at device.copied 1", "put a 9"},
                      End{"update", {}, "throw_at device.copied 1", "update a s", 2},
                      End{"get", {}, "throw_at device.copied 1", "get a"}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace memlease::testing
