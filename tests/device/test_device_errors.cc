// An error of the GPU in one process: that one must be restarted, all others go on.
#include "tests/device/fixture.h"

namespace memlease::testing {
namespace {

constexpr int kIllegalAddress = 700;

class DeviceErrors : public DeviceTest {
 protected:
  void SetUp() override { FAKECUDA_STAND_IN_ONLY(); }

  // Breaks the peer's context by a kernel, as one that leaves its memory; what it was to do is all
  // over then, but the checker does not know that of arrays' bytes.
  void break_context(Client& peer, const std::string& stream) {
    world->fail("cudaLaunchKernel", kIllegalAddress, 1, 1, fakecuda::Fault::kPoison,
                static_cast<fakecuda::u32>(peer.pid()));
    peer.is_ok("spin " + stream + " 0");
    EXPECT_EQ(error(peer, "synchronize " + stream), "Internal");
  }
  // CUDA gives nothing back to the peer any more; and who waited for it goes on by a host's store.
  void expect_no_races() {
    using What = fakecuda::Finding::What;
    for (const auto& found : world.findings()) {
      EXPECT_TRUE(found.what == What::kLeak || found.what == What::kOrphanWait)
          << fakecuda::describe(found);
    }
  }
};

TEST_F(DeviceErrors, AReaderWhoseGpuFailsIsToldAndOthersGoOn) {
  Client writer(daemon);
  Client reader(daemon);
  Client other(daemon);
  writer.is_ok("create a 2 1000 cuda:0");
  publish(writer, 1);
  reader.is_ok("read a r");
  break_context(reader, "r");
  EXPECT_EQ(error(reader, "release a"), "Internal");
  const Answer answer = reader.ask("read a r");
  EXPECT_EQ(answer.code, "Internal");
  EXPECT_THAT(answer.text, ::testing::HasSubstr("cudaErrorIllegalAddress"));
  for (int value = 2; value <= 5; ++value) {
    publish(writer, value);
    EXPECT_THAT(other.is_ok("get a"), ::testing::EndsWith(" " + std::to_string(value)));
  }
  reader.kill();
  publish(writer, 6);
  EXPECT_EQ(other.is_ok("get a"), "6 6 6");
}

TEST_F(DeviceErrors, AWriterWhoseGpuFailsPublishesNothingAndAnotherOneGoesOn) {
  Client other(daemon);
  Client writer(daemon);
  other.is_ok("create a 2 1000 cuda:0");
  publish(other, 1);
  other.is_ok("synchronize s");
  writer.is_ok("write a s");
  break_context(writer, "s");
  EXPECT_EQ(error(writer, "publish a"), "Internal");
  EXPECT_EQ(other.is_ok("get a"), "1 1 1");
  writer.kill();
  publish(other, 3);
  EXPECT_THAT(other.is_ok("get a"), ::testing::EndsWith(" 3 3"));
}

// It lives on, and its next call says that its reads are over.
TEST_F(DeviceErrors, AWriterGoesOnBehindAReaderWhoseGpuFailed) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 2 1000 cuda:0");
  publish(writer, 1);
  reader.is_ok("read a r");
  reader.is_ok("gate r");
  reader.is_ok("release a");
  publish(writer, 2);
  writer.is_ok("write a s");
  writer.is_ok("fill a 3 s");
  EXPECT_EQ(writer.is_ok("idle s"), "0");
  break_context(reader, "q");
  EXPECT_EQ(error(reader, "read a r"), "Internal");
  writer.is_ok("synchronize s");
  writer.is_ok("publish a");
  EXPECT_EQ(writer.is_ok("get a"), "3 3 3");
  expect_no_races();
}

// Likewise, and the newest version that is complete remains.
class DeviceErrorsInCalls : public DeviceErrors,
                            public ::testing::WithParamInterface<const char*> {};

TEST_P(DeviceErrorsInCalls, WhatAWriterLosesWithItsGpuIsPoisonedByItsNextCall) {
  Client other(daemon);
  Client writer(daemon);
  Client reader(daemon);
  other.is_ok("create a 3 1000 cuda:0");
  publish(writer, 1);
  writer.is_ok("synchronize s");
  publish_unfinished(writer, 2);
  reader.is_ok("read a r");
  EXPECT_EQ(reader.is_ok("idle r"), "0");
  break_context(writer, "q");
  EXPECT_EQ(error(writer, GetParam()), "Internal");
  reader.is_ok("synchronize r");
  EXPECT_EQ(error(reader, "release a"), "ProducerDied");
  EXPECT_EQ(error(writer, GetParam()), "Internal");
  EXPECT_EQ(reader.is_ok("get a"), "1 1 1");
  publish(other, 3);
  EXPECT_THAT(reader.is_ok("get a"), ::testing::EndsWith(" 3 3"));
  EXPECT_EQ(error(writer, GetParam()), "Internal");
  expect_no_races();
}

INSTANTIATE_TEST_SUITE_P(Calls, DeviceErrorsInCalls, ::testing::Values("write a s", "read a s"),
                         [](const auto& call) {
                           return std::string(call.param, std::string(call.param).find(' '));
                         });

// Closed, and not asked for anything else.
TEST_F(DeviceErrors, WhatAWriterLosesWithItsGpuIsPoisonedWhenItClosesTheArray) {
  Client other(daemon);
  Client writer(daemon);
  other.is_ok("create a 3 1000 cuda:0");
  publish(writer, 1);
  writer.is_ok("synchronize s");
  publish_unfinished(writer, 2);
  break_context(writer, "q");
  writer.is_ok("close a");
  EXPECT_EQ(other.is_ok("get a"), "1 1 1");
  publish(other, 3);
  EXPECT_THAT(other.is_ok("get a"), ::testing::EndsWith(" 3 3"));
  expect_no_races();
}

// A program that ends as it should does not wait for a GPU that has failed.
TEST_F(DeviceErrors, AProcessWhoseGpuHasFailedEnds) {
  Client keeper(daemon);
  keeper.is_ok("create a 2 1000 cuda:0");
  {
    Client writer(daemon);
    publish(writer, 1);
    writer.is_ok("synchronize s");
    writer.is_ok("read a r");
    break_context(writer, "r");
  }
  publish(keeper, 2);
  EXPECT_THAT(keeper.is_ok("get a"), ::testing::EndsWith(" 2 2"));
  expect_no_races();
}

}  // namespace
}  // namespace memlease::testing
