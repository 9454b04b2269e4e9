// A daemon that lets the host of each process wait in place of its streams (event_waits = host): no
// stream can wait for a record that is lost. The stand-in keeps such a stream for ever here.
#include "tests/device/fixture.h"

namespace memlease::testing {
namespace {

class DeviceHostWaits : public DeviceTest {
 protected:
  DeviceHostWaits() : DeviceTest({"--event-waits=host", "--event-wait-timeout-s=30"}) {}
};

TEST_F(DeviceHostWaits, TheHostWaitsForTheVersionInPlaceOfTheStream) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 3 1000 cuda:0");
  publish_unfinished(writer, 7);
  reader.say("read a r");
  EXPECT_TRUE(waits(reader));
  writer.is_ok("ungate");
  EXPECT_TRUE(reader.answer().ok());
  reader.is_ok("look a 7 r");
  reader.is_ok("release a");
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
}

TEST_F(DeviceHostWaits, TheHostWaitsForReadersInPlaceOfTheStream) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 1 1000 cuda:0");
  publish(writer, 1);
  reader.is_ok("read a r");
  reader.is_ok("gate r");
  reader.is_ok("look a 1 r");
  reader.is_ok("release a");
  writer.say("write a s");
  EXPECT_TRUE(waits(writer));
  reader.is_ok("ungate");
  EXPECT_TRUE(writer.answer().ok());
  writer.is_ok("fill a 2 s");
  writer.is_ok("publish a");
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
  EXPECT_EQ(reader.is_ok("get a"), "2 2 2");
}

// R-SYNC-11: no stream waited for what was lost.
TEST_F(DeviceHostWaits, AReaderOfADeadWritersVersionIsToldAndKeepsItsStream) {
  Client keeper(daemon);
  Client writer(daemon);
  Client reader(daemon);
  keeper.is_ok("create a 3 1000 cuda:0");
  publish(writer, 1);
  writer.is_ok("synchronize s");
  reader.is_ok("get a");
  publish_unfinished(writer, 2);
  reader.say("read a r");
  EXPECT_TRUE(waits(reader));
  writer.kill();
  EXPECT_EQ(reader.answer().code, "ProducerDied");
  reader.is_ok("synchronize r");
  EXPECT_EQ(reader.is_ok("get a"), "1 1 1");
}

// R-SYNC-11: its events are recorded again.
TEST_F(DeviceHostWaits, AWriterGoesOnBehindAReaderThatWasKilledInItsKernel) {
  Client writer(daemon);
  writer.is_ok("create a 1 1000 cuda:0");
  publish(writer, 1);
  {
    Client reader(daemon);
    reader.is_ok("read a r");
    reader.is_ok("gate r");
    reader.is_ok("look a 1 r");
    reader.is_ok("release a");
    writer.say("write a s");
    EXPECT_TRUE(waits(writer));
    reader.kill();
  }
  EXPECT_TRUE(writer.answer().ok());
  writer.is_ok("fill a 2 s");
  writer.is_ok("publish a");
  EXPECT_EQ(writer.is_ok("get a"), "2 2 2");
}

class DeviceHostWaitsBriefly : public DeviceTest {
 protected:
  DeviceHostWaitsBriefly() : DeviceTest({"--event-waits=host", "--event-wait-timeout-s=1"}) {}
};

// R-SYNC-11: should nothing else end it.
TEST_F(DeviceHostWaitsBriefly, AWaitEndsInTimeAndLosesNothing) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 3 1000 cuda:0");
  publish_unfinished(writer, 7);
  EXPECT_EQ(error(reader, "read a r"), "Timeout");
  writer.is_ok("ungate");
  writer.is_ok("synchronize s");
  EXPECT_EQ(reader.is_ok("get a"), "1 7 7");
}

}  // namespace
}  // namespace memlease::testing
