// The default streams are those of the array's GPU, whichever is the thread's current one: here
// each call of memlease is made with another one current than the array's, on which the kernels are
// launched. Each GPU has default streams of its own, which the checker tells apart.
#include <string>

#include "tests/device/fixture.h"

namespace memlease::testing {
namespace {

class DeviceDefaultStreams : public DeviceTest, public ::testing::WithParamInterface<const char*> {
 protected:
  // On the array's GPU.
  static void launch(Client& client, const std::string& kernel) {
    client.is_ok("set_device 0");
    client.is_ok(kernel);
    client.is_ok("set_device 1");
  }
  // A command that calls memlease, which leaves the current device as it was.
  static void call(Client& client, const std::string& command) {
    client.is_ok(command);
    EXPECT_EQ(client.is_ok("current_device"), "1") << command;
  }
  static void begin(Client& writer, Client& reader) {
    writer.is_ok("create a 1 1000 cuda:0");
    for (Client* client : {&writer, &reader}) client->is_ok("set_device 1");
  }
  static void write(Client& writer, const std::string& value) {
    call(writer, "write a" + stream());
    launch(writer, "fill a " + value + stream());
    call(writer, "publish a" + stream());
  }
  static std::string stream() { return std::string(" ") + GetParam(); }
};

// R-SYNC-3, 5, 6: with one slot each version waits for the readers of the last one.
TEST_P(DeviceDefaultStreams, AreThoseOfTheArraysGpu) {
  FAKECUDA_STAND_IN_ONLY();
  Client writer(daemon);
  Client reader(daemon);
  begin(writer, reader);
  for (const std::string value : {"1", "2", "3"}) {
    write(writer, value);
    call(reader, "read a" + stream());
    launch(reader, "look a " + value + stream());
    call(reader, "release a" + stream());
  }
  reader.is_ok("set_device 0");
  EXPECT_EQ(reader.is_ok("mismatches" + stream()), "0");
}

// R-SYNC-3: a control; were another GPU's default stream made to wait, this one would not be.
TEST_P(DeviceDefaultStreams, RaceIfTheyDoNotWait) {
  FAKECUDA_STAND_IN_ONLY();
  {
    Client writer(daemon);
    Client reader(daemon);
    reader.is_ok("leave_out wait for the version");
    begin(writer, reader);
    write(writer, "1");
    call(reader, "read a" + stream());
    launch(reader, "look a 1" + stream());
    call(reader, "release a" + stream());
  }
  expect_race("tk_fill", "tk_check");
}

// R-CAI-14: the producer's, too, and that of the copy.
TEST_P(DeviceDefaultStreams, OfAPutAreThoseOfTheArraysGpu) {
  FAKECUDA_STAND_IN_ONLY();
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("stream_on 0 s");
  reader.is_ok("stream_on 0 r");
  writer.is_ok("source b 1000" + stream());
  writer.is_ok("source c 1000 p");
  begin(writer, reader);
  for (const std::string value : {"1", "2", "3"}) {
    launch(writer, "produce b 0 1000 " + value + stream());
    call(writer, "put_source a b s");
    call(reader, "read a r");
    launch(reader, "look a " + value + " r");
    call(reader, "release a");
    launch(writer, "produce c 0 1000 " + value + " p");
    call(writer, "put_source a c" + stream());
    launch(writer, "produce c 0 1000 0 p");
  }
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
}

INSTANTIATE_TEST_SUITE_P(, DeviceDefaultStreams, ::testing::Values("legacy", "per_thread"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace memlease::testing
