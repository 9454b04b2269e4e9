// Captures of graphs by the caller's own thread or another one of its process, in each of CUDA's
// modes: what leases do meanwhile loses none.
#include <tuple>

#include "tests/device/fixture.h"

namespace memlease::testing {
namespace {

// Mode: 0 global, 1 of the thread, 2 relaxed. Whose: "own" or "another".
class DeviceCaptures : public DeviceTest,
                       public ::testing::WithParamInterface<std::tuple<int, std::string>> {
 protected:
  DeviceCaptures() { client.is_ok("create a 3 1000 cuda:0"); }

  void capture(const std::string& stream) {
    client.is_ok("capture " + stream + " " + std::to_string(std::get<0>(GetParam())) + " " +
                 std::get<1>(GetParam()));
  }
  // A lease is left whose end waits for the whole GPU.
  void read_without_a_stream() {
    client.is_ok("read a -");
    client.is_ok("look a 1 r");
    client.is_ok("synchronize r");
  }
  // As CUDA answers.
  std::string end_capture(const std::string& stream) {
    return client.is_ok("end_capture " + stream);
  }
  // Everything that does not wait for the whole GPU.
  void use_all() {
    publish(client, 2);
    read(client, 2);
    client.is_ok("put a 3");
    EXPECT_THAT(client.is_ok("get a"), ::testing::EndsWith(" 3 3"));
    client.is_ok("update a s");
    client.is_ok("add a 1 s");
    client.is_ok("publish a");
    client.is_ok("write a s");
    client.is_ok("drop a s");
    client.is_ok("create new" + std::to_string(++created) + " 2 1000 cuda:0");
    client.is_ok("open theirs");
    EXPECT_EQ(client.is_ok("get theirs"), "1 5 5");
    client.is_ok("close theirs");
  }

  Client client{daemon};
  int created = 0;
};

std::string describe_case(const ::testing::TestParamInfo<std::tuple<int, std::string>>& test) {
  static const char* const kModes[] = {"Global", "ThreadLocal", "Relaxed"};
  return kModes[std::get<0>(test.param)] +
         std::string(std::get<1>(test.param) == "own" ? "Own" : "Another");
}

INSTANTIATE_TEST_SUITE_P(, DeviceCaptures,
                         ::testing::Combine(::testing::Values(0, 1, 2),
                                            ::testing::Values("own", "another")),
                         describe_case);

// R-SYNC-15
TEST_P(DeviceCaptures, LeasesOnOtherStreamsLoseNone) {
  Client other(daemon);
  other.is_ok("create theirs 2 1000 cuda:0");
  other.is_ok("put theirs 5");
  client.is_ok("blocking_stream blocking");
  // They are there: the test's own making of a stream is potentially unsafe.
  for (const char* stream : {"s", "r", "free"}) client.is_ok(std::string("synchronize ") + stream);
  for (const char* stream : {"blocking", "free"}) {
    capture(stream);
    use_all();
    EXPECT_EQ(end_capture(stream), "0") << stream;
  }
}

// R-SYNC-15: the legacy stream would take part, which can be asked; the GPU is not waited for.
TEST_P(DeviceCaptures, AnEndWithoutAStreamLosesNoneThatCanBeSeen) {
  publish(client, 1);
  read_without_a_stream();
  client.is_ok("blocking_stream c");
  capture("c");
  EXPECT_EQ(error(client, "release a"), "InvalidArgument");
  EXPECT_EQ(end_capture("c"), "0");
  EXPECT_EQ(client.is_ok("get a"), "1 1 1");
}

// R-SYNC-15: the caller names the stream that captures; no wait for the GPU makes up for it.
TEST_P(DeviceCaptures, OneThatIsNamedIsRefusedAndNotLost) {
  publish(client, 1);
  client.is_ok("read a c");
  client.is_ok("look a 1 c");
  client.is_ok("synchronize c");
  capture("c");
  EXPECT_EQ(error(client, "release a c"), "InvalidArgument");
  EXPECT_EQ(end_capture("c"), "0");
  client.is_ok("write a c");
  client.is_ok("fill a 9 c");
  client.is_ok("synchronize c");
  capture("c");
  EXPECT_EQ(error(client, "publish a c"), "InvalidArgument");
  EXPECT_EQ(end_capture("c"), "0");
  EXPECT_EQ(client.is_ok("get a"), "1 1 1");
  for (const int value : {2, 3, 4}) publish(client, value);
}

// A lease's own stream that captures later, and one of the library's that its view was
// given: neither a record nor a wait goes into the graph, and the slot is kept until the work is
// known.
TEST_P(DeviceCaptures, AStreamOfALeaseThatCapturesLaterIsGivenNothing) {
  client.is_ok("source t 1000 -");
  client.is_ok("write a c");
  client.is_ok("synchronize c");
  capture("c");
  EXPECT_EQ(error(client, "fill_from a t"), "InvalidArgument");
  EXPECT_EQ(end_capture("c"), "0");
  client.is_ok("publish a");
  client.is_ok("write a legacy");
  client.is_ok("export_write a");
  client.is_ok("fill a 9 exported");
  client.is_ok("synchronize exported");
  capture("exported");
  EXPECT_EQ(error(client, "publish a"), "InvalidArgument");
  EXPECT_EQ(end_capture("exported"), "0");
  EXPECT_THAT(client.is_ok("get a"), ::testing::StartsWith("1 "));
}

// The legacy stream is joined by one of the library's.
TEST_P(DeviceCaptures, ALeaseOnTheLegacyStreamLosesNoneThatTakesPartThere) {
  publish(client, 1);
  client.is_ok("blocking_stream c");
  client.is_ok("write a legacy");
  capture("c");
  EXPECT_EQ(error(client, "export_write a"), "InvalidArgument");
  EXPECT_EQ(end_capture("c"), "0");
  client.is_ok("export_write a");
  client.is_ok("publish a");
}

// No question of CUDA's shows this one, and work that is unknown must be waited for: both sides are
// told, and no slot is given up.
TEST_P(DeviceCaptures, AnEndWithoutAStreamLosesOneThatCannotBeSeen) {
  FAKECUDA_STAND_IN_ONLY();
  publish(client, 1);
  read_without_a_stream();
  client.is_ok("synchronize c");
  capture("c");
  EXPECT_EQ(error(client, "release a"), "InvalidArgument");
  EXPECT_EQ(end_capture("c"), "901");
  EXPECT_EQ(client.is_ok("get a"), "1 1 1");
}

// The control: without the exchange of the thread's mode, whatever is called loses it.
class DeviceCapturesLost : public DeviceCaptures {};
INSTANTIATE_TEST_SUITE_P(, DeviceCapturesLost,
                         ::testing::Values(std::tuple(0, "another"), std::tuple(0, "own"),
                                           std::tuple(1, "own")),
                         describe_case);

TEST_P(DeviceCapturesLost, WithoutTheRelaxedMode) {
  FAKECUDA_STAND_IN_ONLY();
  publish(client, 1);
  client.is_ok("synchronize s");
  capture("c");
  world->set(fakecuda::Knob::kExchangeIgnored, 1);
  (void)client.ask("get a");
  world->set(fakecuda::Knob::kExchangeIgnored, 0);
  EXPECT_EQ(end_capture("c"), "901");
}

}  // namespace
}  // namespace memlease::testing
