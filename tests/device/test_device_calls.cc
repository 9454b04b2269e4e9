// What leases of GPU arrays cost once they run: which functions of CUDA, how often. None of them
// waits for the GPU, and nobody calls the daemon.
#include "tests/device/call_counts.h"
#include "tests/device/fixture.h"

namespace memlease::testing {
namespace {

using ::testing::Pair;
using ::testing::UnorderedElementsAre;
using ::testing::Value;

class DeviceCalls : public DeviceTest {
 protected:
  static constexpr int kCycles = 20;

  // Versions that one process writes and others read; afterwards all work is over.
  void cycle(Client& writer, const std::vector<Client*>& readers, int times) {
    for (int i = 0; i < times; ++i) {
      writer.is_ok("write a s");
      writer.is_ok("publish a");
      writer.is_ok("synchronize s");  // the test's own
      for (Client* reader : readers) {
        reader->is_ok("read a r");
        reader->is_ok("release a");
        reader->is_ok("synchronize r");  // the test's own
      }
    }
  }
};

// Two readers: a write looks at the end of each one's work on its slot, at the current version and
// at the slot's last one, and writes a word where it ends. What is over, as here, need not be
// waited for: the host sees that. Each call of the plug-in also looks at its thread's context, and
// lends it another capture mode.
TEST_F(DeviceCalls, SteadyLeasesOrderStreamsAndDoNothingElse) {
  FAKECUDA_STAND_IN_ONLY();
  Client writer(daemon);
  Client one(daemon);
  Client two(daemon);
  writer.is_ok("create a 3 1000 cuda:0");
  const std::vector<Client*> readers{&one, &two};
  cycle(writer, readers, 8);
  const auto by_writer = UnorderedElementsAre(
      Pair("cuStreamWriteValue64", 1), Pair("cudaStreamIsCapturing", 2),
      Pair("cudaStreamSynchronize", 1), Pair("cuCtxGetCurrent", 5), Pair("cuCtxGetDevice", 2),
      Pair("cuStreamGetCtx", 3), Pair("cuThreadExchangeStreamCaptureMode", 10));
  const auto by_reader = UnorderedElementsAre(
      Pair("cuStreamWriteValue64", 1), Pair("cudaStreamIsCapturing", 2),
      Pair("cudaStreamSynchronize", 1), Pair("cuCtxGetCurrent", 5), Pair("cuCtxGetDevice", 2),
      Pair("cuStreamGetCtx", 3), Pair("cuThreadExchangeStreamCaptureMode", 10));
  const std::string daemon_calls = writer.is_ok("calls") + " " + one.is_ok("calls");
  decltype(each_cycle({}, {}, kCycles)) written;
  decltype(written) read;
  // A lease that looks at the daemon, once a second, also looks at its stream: then once more.
  for (int round = 0; round < 5; ++round) {
    const auto writer_before = calls_of(world, writer.pid());
    const auto reader_before = calls_of(world, one.pid());
    cycle(writer, readers, kCycles);
    written = each_cycle(writer_before, calls_of(world, writer.pid()), kCycles);
    read = each_cycle(reader_before, calls_of(world, one.pid()), kCycles);
    if (Value(written, by_writer) && Value(read, by_reader)) break;
  }
  EXPECT_EQ(writer.is_ok("calls") + " " + one.is_ok("calls"), daemon_calls);
  EXPECT_THAT(written, by_writer);
  EXPECT_THAT(read, by_reader);
}

TEST_F(DeviceCalls, ManyArraysInOneSegmentAreOpenedByOneCall) {
  FAKECUDA_STAND_IN_ONLY();
  Client writer(daemon);
  Client reader(daemon);
  for (const char* name : {"a", "b", "c"}) {
    writer.is_ok(std::string("create ") + name + " 3 1000 cuda:0");
    writer.is_ok(std::string("put ") + name + " 1");
    reader.is_ok(std::string("get ") + name);
  }
  EXPECT_EQ(world->calls("cudaIpcOpenMemHandle", reader.pid()), 1U);
  EXPECT_EQ(world->calls("cudaIpcOpenMemHandle", writer.pid()), 1U);
}

}  // namespace
}  // namespace memlease::testing
