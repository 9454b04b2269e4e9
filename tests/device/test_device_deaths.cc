// Processes killed with work on the GPU: nobody else hangs or takes torn bytes for good ones.
#include "tests/device/fixture.h"

namespace memlease::testing {
namespace {

class DeviceDeaths : public DeviceTest {
 protected:
  // A stream that goes on after a record that was lost is told by the checker, and is what the test
  // is about; nothing else may be wrong, also when the other processes have ended.
  void expect_lost_records_alone() { loses_records_ = true; }
  void TearDown() override {
    if (!loses_records_) return;
    for (const fakecuda::Finding& finding : world.findings()) {
      EXPECT_EQ(finding.what, fakecuda::Finding::What::kOrphanWait) << fakecuda::describe(finding);
    }
  }
  // Memory and events that a process has open now.
  int open_handles(const Client& client) {
    for (const auto& process : world->layout().processes) {
      if (process.state.load() == fakecuda::Process::kLive &&
          process.pid == static_cast<fakecuda::u32>(client.pid())) {
        return process.imports.load() + process.events.load();
      }
    }
    ADD_FAILURE() << "no such process";
    return 0;
  }

 private:
  bool loses_records_ = false;
};

// R-SYNC-11: what it wrote was nobody's yet.
TEST_F(DeviceDeaths, AWriterKilledBeforeItPublishesChangesNothing) {
  Client keeper(daemon);
  keeper.is_ok("create a 2 1000 cuda:0");
  {
    Client writer(daemon);
    publish(writer, 1);
    writer.is_ok("synchronize s");
    writer.is_ok("gate s");
    writer.is_ok("write a s");
    writer.is_ok("fill a 2 s");
    writer.kill();
  }
  EXPECT_EQ(keeper.is_ok("get a"), "1 1 1");
  publish(keeper, 3);
  EXPECT_EQ(keeper.is_ok("get a"), "3 3 3");  // number 2 was the dead one's
}

// R-SYNC-11: who has it is told, and the one before it stands.
TEST_F(DeviceDeaths, AVersionWhoseWriterDiesBeforeItIsCompleteIsPoisoned) {
  Client keeper(daemon);
  keeper.is_ok("create a 3 1000 cuda:0");
  Client writer(daemon);
  publish(writer, 1);
  writer.is_ok("synchronize s");
  publish_unfinished(writer, 2);
  Client reader(daemon);
  EXPECT_EQ(reader.is_ok("read a r").substr(0, 1), "2");
  reader.is_ok("look a 2 r");
  writer.kill();
  EXPECT_TRUE(becomes([&] { return keeper.is_ok("version a") == "1"; }));
  EXPECT_EQ(error(reader, "release a"), "ProducerDied");
  reader.is_ok("synchronize r");  // the daemon has let its stream go on
  EXPECT_EQ(keeper.is_ok("get a"), "1 1 1");
  publish(keeper, 3);
  publish(keeper, 4);
  EXPECT_EQ(reader.is_ok("get a"), "4 4 4");
  expect_lost_records_alone();
}

// Nothing of the dead stays open in those who go on.
TEST_F(DeviceDeaths, SurvivorsCloseAllThatTheyHadOpen) {
  FAKECUDA_STAND_IN_ONLY();  // which counts that
  Client keeper(daemon);
  Client reader(daemon);
  keeper.is_ok("create a 3 1000 cuda:0");
  {
    Client writer(daemon);
    Client other(daemon);
    publish(writer, 1);
    read(other, 1);
    read(reader, 1);
    publish(writer, 2);
    publish(writer, 3);
    publish(writer, 4);
    writer.is_ok("synchronize s");  // else its death poisons what it has not finished, too
    publish_unfinished(writer, 5);
    reader.is_ok("read a r");
    other.is_ok("read a r");
    writer.kill();
    other.kill();
  }
  EXPECT_TRUE(becomes([&] { return keeper.is_ok("version a") == "4"; }));
  EXPECT_EQ(error(reader, "release a"), "ProducerDied");
  publish(keeper, 6);
  publish(keeper, 7);
  publish(keeper, 8);
  read(reader, 8);
  for (Client* survivor : {&reader, &keeper}) {
    EXPECT_GT(open_handles(*survivor), 0);
    survivor->is_ok("close a");
    EXPECT_EQ(open_handles(*survivor), 0);
  }
  expect_lost_records_alone();
}

// R-SYNC-11: the daemon says that its reads are over.
TEST_F(DeviceDeaths, AReaderKilledInItsKernelDoesNotStopTheWriter) {
  Client writer(daemon);
  writer.is_ok("create a 2 1000 cuda:0");
  publish(writer, 1);
  {
    Client reader(daemon);
    reader.is_ok("gate r");
    read(reader, 1);
    publish(writer, 2);
    publish(writer, 3);  // its stream waits for the reader's kernel
    reader.kill();
  }
  writer.is_ok("synchronize s");
  EXPECT_EQ(writer.is_ok("get a"), "3 3 3");
  expect_lost_records_alone();
}

// R-SYNC-11: its work has ended with it.
TEST_F(DeviceDeaths, AReaderKilledWithALeaseGivesItsSlotBack) {
  Client writer(daemon);
  writer.is_ok("create a 2 1000 cuda:0");
  publish(writer, 1);
  {
    Client reader(daemon);
    reader.is_ok("gate r");
    reader.is_ok("read a r");
    reader.is_ok("look a 1 r");
    reader.kill();
  }
  for (int value = 2; value <= 4; ++value) publish(writer, value);
  EXPECT_EQ(writer.is_ok("get a"), "4 4 4");
}

// R-SYNC-11: what waits for the whole GPU ends, too.
TEST_F(DeviceDeaths, ALeaseOfTwoStreamsEndsWithTheVersionsWriter) {
  Client keeper(daemon);
  Client writer(daemon);
  Client reader(daemon);
  keeper.is_ok("create a 3 1000 cuda:0");
  publish(writer, 1);
  writer.is_ok("synchronize s");
  publish_unfinished(writer, 2);
  reader.is_ok("read a r");
  reader.is_ok("wait a q");
  reader.is_ok("look a 2 r");
  reader.is_ok("look a 2 q");
  reader.say("release a");  // by no stream: all of them are waited for
  EXPECT_TRUE(waits(reader));
  writer.kill();
  EXPECT_EQ(reader.answer().code, "ProducerDied");
  for (const char* stream : {"synchronize r", "synchronize q"}) reader.is_ok(stream);
  EXPECT_EQ(reader.is_ok("get a"), "1 1 1");
  EXPECT_EQ(keeper.is_ok("put a 3"), "3");
  expect_lost_records_alone();
}

// R-SYNC-11: a copy to pageable memory blocks inside of the driver, so that it may not be begun
// before.
TEST_F(DeviceDeaths, AGetThatWaitsForADeadWriterEnds) {
  Client keeper(daemon);
  Client writer(daemon);
  Client reader(daemon);
  keeper.is_ok("create a 3 1000 cuda:0");
  publish(writer, 1);
  writer.is_ok("synchronize s");
  EXPECT_EQ(reader.is_ok("get a"), "1 1 1");
  publish_unfinished(writer, 2);
  reader.say("get a");
  EXPECT_TRUE(waits(reader));
  writer.kill();
  EXPECT_EQ(reader.answer().code, "ProducerDied");
  EXPECT_EQ(reader.is_ok("get a"), "1 1 1");
  EXPECT_EQ(keeper.is_ok("put a 3"), "3");
}

TEST_F(DeviceDeaths, AGetThatWaitsEndsWithTheDaemon) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 3 1000 cuda:0");
  publish_unfinished(writer, 1);
  reader.say("get a");
  EXPECT_TRUE(waits(reader));
  daemon.kill();
  EXPECT_EQ(reader.answer().code, "DaemonLost");
  writer.is_ok("ungate");
  writer.is_ok("synchronize s");
}

// R-SYNC-2: and what it was given lasts until then.
TEST_F(DeviceDeaths, WithoutItsDaemonAProcessEndsCleanly) {
  Client client(daemon);
  client.is_ok("create a 2 1000 cuda:0");
  publish(client, 1);
  client.is_ok("read a r");
  daemon.kill();
  EXPECT_TRUE(becomes([&] { return error(client, "write a s") == "DaemonLost"; }));
  client.is_ok("release a");
  client.is_ok("synchronize r");
}

// Nobody is left to say that its writer has died.
TEST_F(DeviceDeaths, ALeaseWithoutAStreamEndsWhenTheDaemonDies) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 3 1000 cuda:0");
  publish_unfinished(writer, 1);
  reader.is_ok("read a r");
  reader.is_ok("wait a q");
  reader.say("release a");  // by neither: by the host
  EXPECT_TRUE(waits(reader));
  daemon.kill();
  EXPECT_EQ(reader.answer().code, "DaemonLost");
  reader.kill();  // until then it holds the slot
  writer.is_ok("ungate");
  writer.is_ok("synchronize s");
}

}  // namespace
}  // namespace memlease::testing
