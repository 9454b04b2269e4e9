// Replicas that cannot be made for want of memory, and streams that are not of the replica's GPU:
// an error says so, nothing is lost, and a later try does what this one could not.
#include <string>
#include <vector>

#include "tests/device/fixture.h"

namespace memlease::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

// ---- No memory there.

struct Shortage {
  const char* name;
  const char* flag;  // of the daemon
  const char* device;
  const char* code;
  const char* told;
  friend void PrintTo(const Shortage& shortage, std::ostream* out) { *out << shortage.name; }
};

class ReplicasWithoutMemory : public DeviceTest, public ::testing::WithParamInterface<Shortage> {
 protected:
  ReplicasWithoutMemory() : DeviceTest({GetParam().flag, "--warm-bytes=0"}) {}
  void SetUp() override { FAKECUDA_STAND_IN_ONLY(); }
};

// Slots of 240 kB, three each; what fills the device has 640 kB of 2 MiB.
TEST_P(ReplicasWithoutMemory, AreRefusedAndMadeOnceThereIsSome) {
  const std::string device = GetParam().device;
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create filler 3 80000 " + device);
  writer.is_ok("create a 3 30000 cuda:0");
  publish(writer, 7);
  for (int tries = 0; tries < 3; ++tries) {
    const Answer answer = reader.ask("on a " + device + " b");
    EXPECT_EQ(answer.code, GetParam().code);
    EXPECT_THAT(answer.text, HasSubstr(GetParam().told));
  }
  // The array is as it was, and goes on.
  EXPECT_EQ(reader.is_ok("get a"), "1 7 7");
  publish(writer, 8);
  EXPECT_EQ(reader.is_ok("get a"), "2 8 8");
  const auto listed = daemon.admin().list_arrays("a*");
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(listed->arrays_size(), 1) << "nothing is left of the replica";

  writer.is_ok("withdraw filler");
  EXPECT_TRUE(becomes([&] { return reader.ask("on a " + device + " b").ok(); }));
  EXPECT_EQ(reader.is_ok("get b"), "2 8 8");
  EXPECT_EQ(reader.is_ok("put b 9"), "3");
  EXPECT_EQ(writer.is_ok("get a"), "3 9 9");
}

// A handle is a promise, so that nobody else's need takes the replica away; who closes it, and the
// operator, may.
TEST_P(ReplicasWithoutMemory, KeepTheirsWhileTheyAreOpenAndIdle) {
  const std::string device = GetParam().device;
  const std::string filler = "create filler 3 80000 " + device;
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 3 30000 cuda:0");
  publish(writer, 7);
  const std::string name = "a@" + reader.is_ok("on a " + device + " b");
  EXPECT_EQ(reader.is_ok("get b"), "1 7 7");
  EXPECT_EQ(error(writer, filler), GetParam().code);
  EXPECT_EQ(reader.is_ok("get b"), "1 7 7");
  reader.is_ok("close b");
  EXPECT_TRUE(becomes([&] { return writer.ask(filler).ok(); }));

  for (const char* command : {"withdraw filler", "close filler"}) writer.is_ok(command);
  EXPECT_TRUE(becomes([&] { return reader.ask("on a " + device + " b").ok(); }));
  EXPECT_EQ(reader.is_ok("get b"), "1 7 7");
  ASSERT_TRUE(daemon.admin().withdraw(name).ok());
  EXPECT_EQ(error(reader, "get b"), "Withdrawn");
  if (device != "host") reader.is_ok("close b");  // which has a GPU's memory open
  EXPECT_TRUE(becomes([&] { return writer.ask(filler).ok(); }));
  EXPECT_EQ(reader.is_ok("get a"), "1 7 7");
}

INSTANTIATE_TEST_SUITE_P(
    Where, ReplicasWithoutMemory,
    ::testing::Values(Shortage{"OnAGpuThatIsFull", "--gpu-memory-limit-bytes=2MiB", "cuda:1",
                               "OutOfMemory", "limit of 2097152 bytes are taken"},
                      Shortage{"OnAGpuBeyondTheQuota", "--gpu-quota-bytes=2MiB", "cuda:1",
                               "QuotaExceeded", "of its 2097152 bytes on GPU-"},
                      Shortage{"OnTheHostBeyondTheQuota", "--quota-bytes=2MiB", "host",
                               "QuotaExceeded", "of its 2097152 bytes on host"}),
    [](const auto& shortage) { return shortage.param.name; });

class ReplicaRefusals : public DeviceTest {
 protected:
  void SetUp() override { FAKECUDA_STAND_IN_ONLY(); }

  // The array "a" of a device, with 7 in version 1.
  void make(const std::string& device) {
    writer.is_ok("create a 3 1000 " + device);
    writer.is_ok("put a 7");
  }

  Client writer{daemon};
  Client reader{daemon};
};

// It is CUDA that has none: other programs use the GPU, too.
TEST_F(ReplicaRefusals, AGpuWithoutMemoryIsToldOf) {
  make("cuda:0");
  constexpr int kOutOfMemory = 2;
  // For what would be used later, too, and for what is needed.
  world->fail("cudaMalloc", kOutOfMemory, 1, 2, fakecuda::Fault::kRefuse,
              static_cast<fakecuda::u32>(daemon.pid()));
  const Answer answer = reader.ask("on a cuda:1 b");
  EXPECT_EQ(answer.code, "OutOfMemory");
  EXPECT_THAT(answer.text, HasSubstr("GPU-"));
  EXPECT_EQ(reader.is_ok("get a"), "1 7 7");
  EXPECT_THAT(reader.is_ok("on a cuda:1 b"), StartsWith("GPU-"));
  EXPECT_EQ(reader.is_ok("get b"), "1 7 7");
}

// ---- Streams of another GPU.

// Whether it is a stream that would copy, from the host, or the host, from a GPU.
TEST_F(ReplicaRefusals, AStreamOfAnotherGpuIsRefusedAndNothingIsLost) {
  for (const std::string home : {"host", "cuda:0"}) {
    make(home);
    reader.is_ok("on a cuda:1 b");
    reader.is_ok("stream_on 0 wrong");
    const auto expect_refused = [&](const std::string& call) {
      const Answer answer = reader.ask(call);
      EXPECT_EQ(answer.code, "InvalidArgument") << call;
      EXPECT_THAT(answer.text, HasSubstr("is one of cuda:0")) << call;
    };
    const std::string before = reader.is_ok("copies");
    for (const char* call : {"read b wrong", "write b wrong", "update b wrong"}) {
      expect_refused(call);
      EXPECT_EQ(reader.is_ok("copies"), before) << call << ": no version was copied for it";
    }
    EXPECT_EQ(reader.is_ok("version a"), "1");
    EXPECT_EQ(writer.is_ok("get a"), "1 7 7");
    reader.is_ok("stream_on 1 right");
    EXPECT_THAT(reader.is_ok("read b right"), StartsWith("1 "));
    reader.is_ok("release b");
    EXPECT_EQ(reader.is_ok("get b"), "1 7 7");
    for (const char* name : {"close b", "close a"}) reader.is_ok(name);
    writer.is_ok("withdraw a");
    writer.is_ok("close a");
  }
}

TEST_F(ReplicaRefusals, AMemArrayThatIsMovedWithSuchAStreamStaysWhereItIs) {
  make("host");
  reader.is_ok("stream_on 0 wrong");
  reader.is_ok("stream_on 1 right");
  EXPECT_EQ(reader.is_ok("move a cuda:1 wrong"), "InvalidArgument host 7");
  EXPECT_THAT(reader.is_ok("move a cuda:1 right"), MatchesRegex("moved GPU-.* 7"));
}

}  // namespace
}  // namespace memlease::testing
