// Contexts cost memory on their GPU: only those are made that arrays need.
#include "tests/device/fixture.h"

namespace memlease::testing {
namespace {

class DeviceContexts : public DeviceTest {};

TEST_F(DeviceContexts, WhoUsesOneGpuHasNoneOnAnother) {
  FAKECUDA_STAND_IN_ONLY();
  Peer client(daemon.directory());
  for (const char* command : {"join", "create a 3 1000 cuda:1", "put a 7", "get a"}) {
    EXPECT_TRUE(client.ask(command).ok()) << command;
  }
  for (const pid_t pid : {client.pid(), daemon.pid()}) {
    EXPECT_EQ(world->contexts(pid, 0), 0U);
    EXPECT_EQ(world->contexts(pid, 1), 1U);
  }
}

TEST_F(DeviceContexts, AskingForGpusMakesNone) {
  FAKECUDA_STAND_IN_ONLY();
  Peer client(daemon.directory());
  EXPECT_TRUE(client.ask("join").ok());
  EXPECT_FALSE(client.ask("create a 3 1000 cuda:7").ok());
  EXPECT_EQ(world->contexts(client.pid()), 0U);
  EXPECT_EQ(world->contexts(daemon.pid()), 0U);
}

}  // namespace
}  // namespace memlease::testing
