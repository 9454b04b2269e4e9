// A driver that has no shared events left (they are limited, to some 20,000 on a GPU): arrays and
// readers that get none go on, their hosts wait in place of other processes' streams.
#include "memlease/v1/admin.pb.h"
#include "tests/device/fixture.h"

namespace memlease::testing {
namespace {

class DeviceEventShortage : public DeviceTest {
 protected:
  void SetUp() override { FAKECUDA_STAND_IN_ONLY(); }

  // What `memleasectl status` tells.
  std::uint64_t without_events() {
    std::uint64_t count = 0;
    const auto status = daemon.admin().status();
    for (const auto& gpu : status->gpus()) count += gpu.without_events();
    return count;
  }

  // A writer and a reader that are both late, in each other's slots: wrong values seen.
  static std::uint64_t rounds(Client& writer, Client& reader) {
    for (int round = 1; round <= 4; ++round) {
      publish(writer, round);
      read(reader, round);
    }
    return reader.ask("mismatches r").number();
  }
};

// R-SYNC-3, 5, 6: by the hosts.
TEST_F(DeviceEventShortage, AnArrayWithoutEventsIsOrderedByHosts) {
  Client writer(daemon);
  Client reader(daemon);
  event_shortage(true);
  writer.is_ok("create a 2 1000 cuda:0");
  EXPECT_THAT(daemon.log(), ::testing::HasSubstr("gives no events"));
  EXPECT_EQ(without_events(), 1U);
  event_shortage(false);
  EXPECT_EQ(rounds(writer, reader), 0U);
}

// R-SYNC-3, 5, 6: likewise.
TEST_F(DeviceEventShortage, AReaderWithoutEventsIsOrderedByItsHost) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 2 1000 cuda:0");
  publish(writer, 1);
  event_shortage(true);
  reader.is_ok("get a");
  EXPECT_EQ(without_events(), 1U);
  event_shortage(false);
  EXPECT_EQ(rounds(writer, reader), 0U);
}

// R-SYNC-3, 5, 6: the controls.
TEST_F(DeviceEventShortage, AHostThatDoesNotWaitForWhatItWroteIsFound) {
  Client writer(daemon);
  Client reader(daemon);
  event_shortage(true);
  writer.is_ok("create a 2 1000 cuda:0");
  writer.is_ok("leave_out record the write");
  rounds(writer, reader);
  expect_race("tk_fill", "tk_check");
}

// R-SYNC-3, 5, 6: likewise.
TEST_F(DeviceEventShortage, AHostThatDoesNotWaitForWhatItReadIsFound) {
  Client writer(daemon);
  Client reader(daemon);
  event_shortage(true);
  writer.is_ok("create a 2 1000 cuda:0");
  reader.is_ok("leave_out record the read");
  rounds(writer, reader);
  expect_race("tk_fill", "tk_check");
}

TEST_F(DeviceEventShortage, PublishingWaitsForTheWork) {
  Client writer(daemon);
  Client reader(daemon);
  event_shortage(true);
  writer.is_ok("create a 2 1000 cuda:0");
  writer.is_ok("write a s");
  writer.is_ok("gate s");
  writer.is_ok("fill a 7 s");
  writer.say("publish a");
  EXPECT_TRUE(waits(writer));
  EXPECT_EQ(reader.is_ok("version a"), "0");
  writer.kill();
}

// R-SYNC-11: its stream stays blocked, no call does.
TEST_F(DeviceEventShortage, AReaderWithoutEventsIsToldOfADeadWriter) {
  a_later_record_frees(false);
  Client keeper(daemon);
  Client writer(daemon);
  Client reader(daemon);
  keeper.is_ok("create a 3 1000 cuda:0");
  event_shortage(true);
  publish_unfinished(writer, 2);
  reader.is_ok("read a r");
  reader.is_ok("look a 2 r");
  writer.kill();
  EXPECT_EQ(error(reader, "release a"), "ProducerDied");
  EXPECT_EQ(reader.is_ok("idle r"), "0");
  keeper.is_ok("put a 3");
  EXPECT_EQ(reader.is_ok("get a").substr(1), " 3 3");
  reader.kill();
}

// What stands behind the lost record runs then, after the lease: its memory must still be there.
TEST_F(DeviceEventShortage, WorkBehindALostVersionKeepsTheMemoryOpen) {
  a_later_record_frees(true);
  Client keeper(daemon);
  Client writer(daemon);
  Client reader(daemon);
  keeper.is_ok("create a 3 1000 cuda:0");
  event_shortage(true);
  reader.is_ok("open a");
  publish_unfinished(writer, 2);
  reader.is_ok("read a r");
  reader.is_ok("gate r");
  reader.is_ok("look a 2 r");
  writer.kill();
  EXPECT_EQ(error(reader, "release a"), "ProducerDied");
  reader.say("close a");
  EXPECT_TRUE(waits(reader));
  reader.kill();
  for (const auto& finding : world.findings()) {
    EXPECT_EQ(finding.what, fakecuda::Finding::What::kOrphanWait) << fakecuda::describe(finding);
  }
}

}  // namespace
}  // namespace memlease::testing
