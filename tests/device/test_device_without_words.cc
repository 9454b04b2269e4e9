// A GPU whose streams cannot wait for words of shared pages: hosts wait in place of other
// processes' streams.
#include "tests/device/fixture.h"

namespace memlease::testing {
namespace {

class DeviceWithoutWords : public DeviceTest, public ::testing::WithParamInterface<fakecuda::Knob> {
 protected:
  void SetUp() override {
    FAKECUDA_STAND_IN_ONLY();
    world->set(GetParam(), 0);
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

INSTANTIATE_TEST_SUITE_P(, DeviceWithoutWords,
                         ::testing::Values(fakecuda::Knob::kStreamMemoryOps,
                                           fakecuda::Knob::kReadOnlyRegister,
                                           fakecuda::Knob::kRegisteredInPlace),
                         [](const auto& tested) {
                           switch (tested.param) {
                             case fakecuda::Knob::kStreamMemoryOps:
                               return "NoStreamMemoryOperations";
                             case fakecuda::Knob::kReadOnlyRegister:
                               return "NoReadOnlyRegistration";
                             default:
                               return "RegisteredMemoryElsewhere";
                           }
                         });

// R-SYNC-3, 5, 6: by the hosts.
TEST_P(DeviceWithoutWords, HostsOrderWhatStreamsDo) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 2 1000 cuda:0");
  EXPECT_EQ(rounds(writer, reader), 0U);
}

// R-SYNC-3, 5, 6: the controls.
TEST_P(DeviceWithoutWords, AHostThatDoesNotWaitForWhatItWroteIsFound) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 2 1000 cuda:0");
  writer.is_ok("leave_out record the write");
  rounds(writer, reader);
  expect_race("tk_fill", "tk_check");
}

// R-SYNC-3, 5, 6: likewise.
TEST_P(DeviceWithoutWords, AHostThatDoesNotWaitForWhatItReadIsFound) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 2 1000 cuda:0");
  reader.is_ok("leave_out record the read");
  rounds(writer, reader);
  expect_race("tk_fill", "tk_check");
}

TEST_P(DeviceWithoutWords, PublishingWaitsForTheWork) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 2 1000 cuda:0");
  writer.is_ok("write a s");
  writer.is_ok("gate s");
  writer.is_ok("fill a 7 s");
  writer.say("publish a");
  EXPECT_TRUE(waits(writer));
  EXPECT_EQ(reader.is_ok("version a"), "0");
  writer.kill();
}

// What was written goes on, and keeps its slot.
TEST_P(DeviceWithoutWords, AnInterruptEndsTheWaitOfAPublish) {
  Client writer(daemon);
  writer.is_ok("create a 2 1000 cuda:0");
  writer.is_ok("write a s");
  writer.is_ok("gate s");
  writer.is_ok("fill a 7 s");
  writer.is_ok("interrupt 3");
  EXPECT_EQ(error(writer, "publish a"), "exception");
  EXPECT_EQ(writer.is_ok("version a"), "0");
  writer.is_ok("ungate");
  for (const int value : {1, 2, 3}) publish(writer, value);
  EXPECT_THAT(writer.is_ok("get a"), ::testing::EndsWith(" 3 3"));
}

// Streams wait for words, but CUDA does not register the page of a reader's.
TEST_F(DeviceTest, AnInterruptEndsTheWaitForAReaderWhosePageIsNotRegistered) {
  FAKECUDA_STAND_IN_ONLY();
  constexpr int kNotSupported = 801;
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 1 1000 cuda:0");
  publish(writer, 1);
  world->fail("cudaHostRegister", kNotSupported, 1, 1, fakecuda::Fault::kRefuse,
              static_cast<fakecuda::u32>(writer.pid()));
  reader.is_ok("read a r");
  reader.is_ok("gate r");
  reader.is_ok("look a 1 r");
  reader.is_ok("release a");
  writer.is_ok("interrupt 20");
  EXPECT_EQ(error(writer, "write a s"), "exception");
  EXPECT_EQ(writer.is_ok("refused"), "1");
  reader.is_ok("ungate");
  publish(writer, 2);
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
  EXPECT_THAT(reader.is_ok("get a"), ::testing::EndsWith(" 2 2"));
}

}  // namespace
}  // namespace memlease::testing
