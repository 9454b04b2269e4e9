// Copies between GPUs and slots on the host that are registered for that: once each, until the
// array goes; what is refused is copied all the same; and the order of what is under way. The
// checker looks at the end of each test whether anything has run that nothing orders.
#include "memlease/v1/admin.pb.h"
#include "tests/device/fixture.h"

namespace memlease::testing {
namespace {

using ::testing::StartsWith;

class RegisteredCopies : public DeviceTest {
 protected:
  // 80 kB: large enough. "a" is on the GPU, and "h" the same on the host.
  void make() {
    writer.is_ok("create a 3 10000 cuda:0");
    publish(writer, 7);
    reader.is_ok("on a host h");
  }
  std::uint64_t calls(const std::string& name, const Client& peer) {
    return world->calls(name, peer.pid());
  }
  // That have the events of a GPU array that is open, and of this process's reads.
  static constexpr std::uint64_t kEventPages = 2;
  // The stand-in counts that.
  void expect_registered(const Client& peer, std::uint64_t slots) {
    if (!fakecuda::is_loaded()) return;
    EXPECT_EQ(calls("cudaHostRegister", peer) - calls("cudaHostUnregister", peer), slots);
  }
  // What the reader reads of versions that the writer publishes meanwhile.
  void publish_and_get(Client& peer, int value) {
    publish(writer, value);
    const std::string text = std::to_string(value);
    EXPECT_THAT(peer.is_ok("get h"), ::testing::EndsWith(" " + text + " " + text));
  }

  Client writer{daemon};
  Client reader{daemon};
};

TEST_F(RegisteredCopies, ASlotIsRegisteredOnce) {
  FAKECUDA_STAND_IN_ONLY();
  make();
  for (int value = 8; value < 16; ++value) publish_and_get(reader, value);
  const std::uint64_t slots = calls("cudaHostRegister", reader) - kEventPages;
  EXPECT_GE(slots, 1U);
  EXPECT_LE(slots, 3U);
  for (int value = 16; value < 24; ++value) publish_and_get(reader, value);
  EXPECT_LE(calls("cudaHostRegister", reader) - kEventPages, 3U);
  EXPECT_EQ(reader.is_ok("refused"), "0");
  for (const char* name : {"close h", "close a"}) reader.is_ok(name);
  expect_registered(reader, 0);
}

TEST_F(RegisteredCopies, SmallSlotsAreNotRegistered) {
  FAKECUDA_STAND_IN_ONLY();
  writer.is_ok("create a 3 1000 cuda:0");
  publish(writer, 7);
  reader.is_ok("on a host h");
  EXPECT_EQ(reader.is_ok("get h"), "1 7 7");
  EXPECT_EQ(calls("cudaHostRegister", reader), kEventPages);
}

TEST_F(RegisteredCopies, WhatIsRefusedIsCopiedAllTheSame) {
  FAKECUDA_STAND_IN_ONLY();
  constexpr int kOutOfMemory = 2;
  world->fail("cudaHostRegister", kOutOfMemory, 1, -1);
  make();
  for (int value = 8; value < 12; ++value) publish_and_get(reader, value);
  EXPECT_EQ(calls("cudaHostRegister", reader), kEventPages + 1);
  EXPECT_EQ(reader.is_ok("refused"), "2");  // the array's events, and the replica's slots
}

TEST_F(RegisteredCopies, APutOfAGpusMemoryGoesToARegisteredSlot) {
  writer.is_ok("create b 3 10000 host");
  writer.is_ok("source s 10000 s");
  writer.is_ok("produce s 0 10000 6 s");
  EXPECT_EQ(writer.is_ok("put_source b s -"), "1");
  EXPECT_EQ(reader.is_ok("get b"), "1 6 6");
  expect_registered(writer, 1);
}

// The stream reads the slot itself, when it comes to that: the slot is kept until then, whatever
// the reader closes.
TEST_F(RegisteredCopies, ASlotIsKeptUntilTheStreamHasCopiedIt) {
  writer.is_ok("create b 3 10000 host");
  writer.is_ok("put b 5");
  reader.is_ok("on b cuda:0 g");
  reader.is_ok("gate r");
  reader.is_ok("read g r");
  reader.is_ok("look g 5 r");
  reader.is_ok("release g");
  EXPECT_EQ(reader.is_ok("idle r"), "0");
  for (int value = 6; value < 12; ++value) writer.is_ok("put b " + std::to_string(value));
  reader.is_ok("close b");
  expect_registered(reader, kEventPages + 1);
  reader.is_ok("ungate");
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
  reader.is_ok("close g");
  expect_registered(reader, 0);
}

// Each slot is copied to by both in turn.
TEST_F(RegisteredCopies, OfTwoProcessesAreOrdered) {
  make();
  Client other(daemon);
  other.is_ok("on a host h");
  for (int value = 8; value < 20; value += 2) {
    publish_and_get(reader, value);
    publish_and_get(other, value + 1);
  }
}

TEST_F(RegisteredCopies, ThatAreNotWaitedForAreARace) {
  FAKECUDA_STAND_IN_ONLY();
  writer.is_ok("create b 3 10000 host");
  writer.is_ok("source s 10000 s");
  writer.is_ok("leave_out wait for the copy");
  writer.is_ok("put_source b s -");
  reader.is_ok("on b cuda:0 g");
  reader.is_ok("read g -");
  reader.is_ok("release g");
  expect_race("cudaMemcpyAsync", "cudaMemcpyAsync");
}

}  // namespace
}  // namespace memlease::testing
