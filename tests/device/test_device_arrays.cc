// GPU arrays between processes: the same bytes for all, ordered on the GPU. The checker looks at
// the end of each test whether anything has run that nothing orders.
#include "tests/device/fixture.h"

namespace memlease::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class DeviceArrays : public DeviceTest {};

// R-SYNC-2, 3: by the daemon's memory and events.
TEST_F(DeviceArrays, WhatOneProcessWritesAnotherReads) {
  Client writer(daemon);
  EXPECT_THAT(writer.is_ok("create a 3 1000 cuda:0"), StartsWith("GPU-"));
  publish(writer, 7);
  Client reader(daemon);
  EXPECT_EQ(reader.is_ok("read a r"), "1 1");
  reader.is_ok("look a 7 r");
  reader.is_ok("release a");
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
}

// R-SYNC-3, 6: the record has been made, and what it is behind goes on.
TEST_F(DeviceArrays, TheReadersStreamWaitsAndItsHostDoesNot) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 3 1000 cuda:0");
  publish_unfinished(writer, 7);
  reader.say("read a r");
  EXPECT_FALSE(waits(reader));  // a control of this question, as well
  reader.is_ok("look a 7 r");
  reader.is_ok("release a");
  EXPECT_EQ(reader.is_ok("idle r"), "0");
  writer.is_ok("ungate");
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
}

// R-SYNC-5: they have, and their kernels have not.
TEST_F(DeviceArrays, TheWritersStreamWaitsForReadersThatHaveLetGo) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 2 1000 cuda:0");
  publish(writer, 1);
  reader.is_ok("read a r");
  reader.is_ok("gate r");
  reader.is_ok("look a 1 r");
  reader.is_ok("release a");
  publish(writer, 2);
  EXPECT_EQ(writer.is_ok("write a s"), "3 1");  // the slot that the reader had
  writer.is_ok("fill a 3 s");
  writer.is_ok("publish a");
  EXPECT_EQ(writer.is_ok("idle s"), "0");
  reader.is_ok("ungate");
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
  writer.is_ok("synchronize s");
}

TEST_F(DeviceArrays, WithoutAStreamTheHostWaits) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 3 1000 cuda:0");
  publish_unfinished(writer, 7);
  reader.is_ok("read a -");
  reader.say("look a 7 r");  // asks for the bytes, which waits
  EXPECT_TRUE(waits(reader));
  writer.is_ok("ungate");
  EXPECT_TRUE(reader.answer().ok());
  reader.is_ok("release a");
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
}

TEST_F(DeviceArrays, AnUpdateBeginsWithTheCurrentBytes) {
  Client writer(daemon);
  writer.is_ok("create a 3 1000 cuda:0");
  publish(writer, 5);
  writer.is_ok("update a s");
  writer.is_ok("add a 3 s");
  writer.is_ok("publish a");
  writer.is_ok("update a -");  // the host waits for the copy
  writer.is_ok("add a 2 t");
  writer.is_ok("publish a t");
  Client reader(daemon);
  EXPECT_EQ(reader.is_ok("get a"), "3 10 10");
}

TEST_F(DeviceArrays, PutAndGetCopyFromAndToTheHost) {
  Client one(daemon);
  Client other(daemon);
  one.is_ok("create a 3 1000 cuda:0");
  EXPECT_EQ(one.is_ok("put a 4"), "1");
  EXPECT_EQ(other.is_ok("get a"), "1 4 4");
  EXPECT_EQ(other.is_ok("put a 6"), "2");
  EXPECT_EQ(one.is_ok("get a"), "2 6 6");
}

// R-SYNC-4, 5, 6: the same two events, again and again.
TEST_F(DeviceArrays, WithOneSlotReadersAndWriterTakeTurns) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 1 1000 cuda:0");
  for (int value = 1; value <= 3; ++value) {
    publish(writer, value);
    read(reader, value);
  }
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
}

TEST_F(DeviceArrays, TheRightToWriteMovesWithItsOrder) {
  Client one(daemon);
  Client other(daemon);
  one.is_ok("create a 2 1000 cuda:0");
  for (int value = 1; value <= 6; ++value) publish(value % 2 == 1 ? one : other, value);
  EXPECT_EQ(one.is_ok("get a"), "6 6 6");
}

TEST_F(DeviceArrays, APublishOnAStreamThatIsRefusedLeavesItsSlotInOrder) {
  FAKECUDA_STAND_IN_ONLY();  // has two GPUs
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 1 1000 cuda:0");
  publish(writer, 1);
  EXPECT_EQ(reader.is_ok("get a"), "1 1 1");
  writer.is_ok("stream_on 1 foreign");
  writer.is_ok("write a s");
  writer.is_ok("fill a 2 s");
  EXPECT_EQ(error(writer, "publish a foreign"), "InvalidArgument");
  writer.is_ok("write a other");  // the checker tells if it is not behind the stream s
  writer.is_ok("fill a 3 other");
  writer.is_ok("publish a");
  EXPECT_EQ(reader.is_ok("get a").substr(2), "3 3");
}

TEST_F(DeviceArrays, ADropLeavesItsSlotInOrder) {
  Client writer(daemon);
  writer.is_ok("create a 2 1000 cuda:0");
  publish(writer, 1);
  writer.is_ok("write a s");
  writer.is_ok("fill a 2 s");
  writer.is_ok("drop a");
  writer.is_ok("write a t");  // the same slot, another stream
  writer.is_ok("fill a 3 t");
  writer.is_ok("publish a t");
  EXPECT_EQ(writer.is_ok("get a"), "3 3 3");
}

// R-SYNC-4, 6: each record of an event that nobody has waited for yet covers those before it.
TEST_F(DeviceArrays, ReadsOfOneVersionInSeveralStreamsAllCount) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 2 1000 cuda:0");
  publish(writer, 1);
  reader.is_ok("gate first");
  for (const char* const stream : {"first", "second", "second"}) {
    reader.is_ok(std::string("read a ") + stream);
    reader.is_ok(std::string("look a 1 ") + stream);
    reader.is_ok("release a");
  }
  publish(writer, 2);
  publish(writer, 3);
  EXPECT_EQ(writer.is_ok("idle s"), "0");  // for the first, although the second is done
  reader.is_ok("ungate");
  EXPECT_EQ(reader.is_ok("mismatches first"), "0");
  writer.is_ok("synchronize s");
}

// R-SYNC-10: nobody has said where the work on it ends.
TEST_F(DeviceArrays, APinThatOutlivesItsLeaseKeepsTheSlotUntilTheDeviceIsDone) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 2 1000 cuda:0");
  publish(writer, 1);
  reader.is_ok("read a r");
  reader.is_ok("look a 1 r");
  reader.is_ok("pin a");
  reader.is_ok("release a");
  reader.is_ok("unpin a");
  publish(writer, 2);
  writer.say("write a s");  // the slot is still the pin's
  EXPECT_TRUE(writer.sleeps_on_words());
  reader.is_ok("read a r");  // the next call settles it
  EXPECT_TRUE(writer.answer().ok());
  writer.is_ok("fill a 3 s");
  writer.is_ok("publish a");
  reader.is_ok("release a");
}

TEST_F(DeviceArrays, SteadyStateCallsNobody) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 3 1000 cuda:0");
  std::string before[2];
  for (int value = 1; value <= 20; ++value) {
    publish(writer, value);
    read(reader, value);
    if (value == 5) {
      before[0] = writer.is_ok("calls");
      before[1] = reader.is_ok("calls");
    }
  }
  EXPECT_EQ(writer.is_ok("calls"), before[0]);
  EXPECT_EQ(reader.is_ok("calls"), before[1]);
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
}

// R-SYNC-10: what a kernel may still use is not closed.
TEST_F(DeviceArrays, LeavingWaitsForTheGpu) {
  Client writer(daemon);
  writer.is_ok("create a 3 1000 cuda:0");
  publish(writer, 1);
  Client reader(daemon);
  reader.is_ok("gate r");
  read(reader, 1);
  reader.say("close a");
  EXPECT_TRUE(waits(reader));
  reader.kill();
}

// ---- Devices and streams.

// R-DLP-8: a GPU is its UUID, and its number is the process's.
TEST_F(DeviceArrays, AProcessSeesAnArrayByTheNumberThatItsGpuHasThere) {
  FAKECUDA_STAND_IN_ONLY();
  Client writer(daemon);
  const std::string uuid = writer.is_ok("create a 3 1000 cuda:1");
  writer.is_ok("put a 1");
  setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  Client reader(daemon);
  setenv("CUDA_VISIBLE_DEVICES", "0", 1);
  Client blind(daemon);
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(reader.is_ok("open a"), uuid);
  EXPECT_EQ(reader.is_ok("ordinal a"), "0");
  EXPECT_EQ(reader.is_ok("get a"), "1 1 1");
  const Answer answer = blind.ask("open a");
  EXPECT_EQ(answer.code, "Unsupported");
  EXPECT_THAT(answer.text, HasSubstr("is not visible to this process"));
}

TEST_F(DeviceArrays, WhatIsNoDeviceIsRefused) {
  Client client(daemon);
  EXPECT_EQ(error(client, "create a 3 10 cuda:7"), "Unsupported");
  EXPECT_EQ(error(client, "create a 3 10 cuda:x"), "InvalidArgument");
  EXPECT_EQ(error(client, "create a 3 10 gpu"), "InvalidArgument");
  EXPECT_EQ(error(client, "create a 3 10 GPU-00000000-0000-0000-0000-000000000000"), "Unsupported");
}

// R-SYNC-1: those of other GPUs.
TEST_F(DeviceArrays, StreamsOfAnotherGpuAreRefusedAndTheLeaseIsGone) {
  FAKECUDA_STAND_IN_ONLY();
  Client client(daemon);
  client.is_ok("create a 2 10 cuda:0");
  publish(client, 1);
  client.is_ok("stream_on 1 other");
  EXPECT_EQ(error(client, "read a other"), "InvalidArgument");
  EXPECT_EQ(error(client, "write a other"), "InvalidArgument");
  publish(client, 2);
  publish(client, 3);
}

// A reader that has its own work behind it goes, whatever others have under way.
TEST_F(DeviceArrays, LeavingDoesNotWaitForOthersWork) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 3 1000 cuda:0");
  publish(writer, 1);
  reader.is_ok("get a");
  publish_unfinished(writer, 2);
  reader.say("close a");
  EXPECT_TRUE(reader.answer(5000).ok());
  writer.is_ok("ungate");
}

// Its lease ended in another stream, behind which nothing of this one is.
TEST_F(DeviceArrays, WhereAStreamHasYetToLookStaysOpen) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 3 1000 cuda:0");
  publish_unfinished(writer, 1);
  reader.is_ok("read a r");
  reader.is_ok("release a q");
  reader.is_ok("close a");
  reader.is_ok("create b 1 10 host");  // a call, with which it closes what it does not need
  EXPECT_EQ(reader.is_ok("idle r"), "0");
  writer.is_ok("ungate");
  reader.is_ok("synchronize r");
}

// By its next call, and not in a write: that may have to wait for the GPU then.
TEST_F(DeviceArrays, AWriterLetsGoOfTheEventsOfReadersThatHaveGone) {
  FAKECUDA_STAND_IN_ONLY();
  constexpr std::uint64_t kSlots = 2;
  constexpr int kReaders = 5;
  Client writer(daemon);
  writer.is_ok("create a 2 1000 cuda:0");
  const auto unregistered = [&] { return world->calls("cudaHostUnregister", writer.pid()); };
  for (int n = 1; n <= kReaders; ++n) {
    publish(writer, n);
    Client reader(daemon);
    read(reader, n);
    for (std::uint64_t s = 0; s < kSlots; ++s) publish(writer, n);
    writer.is_ok("synchronize s");
  }
  EXPECT_EQ(unregistered(), 0U);
  writer.is_ok("create b 1 10 host");
  EXPECT_LE(world->calls("cudaHostRegister", writer.pid()) - unregistered(), 3U)
      << "the array's page, and those of the last two readers at most";
}

// A reader that goes on to another array takes its row along; a writer of both has it open once.
TEST_F(DeviceArrays, TheEventsOfARowOutliveOneOfTwoArrays) {
  Client writer(daemon);
  Client reader(daemon);
  for (const std::string name : {"a", "b"}) {
    writer.is_ok("create " + name + " 1 1000 cuda:0");
    writer.is_ok("write " + name + " s");
    writer.is_ok("fill " + name + " 1 s");
    writer.is_ok("publish " + name);
  }
  const auto use = [&](const std::string& name) {
    reader.is_ok("read " + name + " r");
    reader.is_ok("look " + name + " 1 r");
    reader.is_ok("release " + name);
    writer.is_ok("write " + name + " s");
    writer.is_ok("fill " + name + " 1 s");
    writer.is_ok("publish " + name);
  };
  use("a");
  reader.is_ok("close a");
  use("b");
  writer.is_ok("synchronize s");
  writer.is_ok("close a");
  writer.is_ok("create c 1 1000 cuda:0");  // a call, with which the daemon learns of what is closed
  use("b");
  reader.is_ok("synchronize r");
  writer.is_ok("synchronize s");
  reader.is_ok("close b");
  use("b");
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
}

// R-SYNC-15: no device is waited for then; a slot that may be in use stays where it is.
TEST_F(DeviceArrays, ALeaseThatEndsWithoutAStreamWhileAGraphIsCapturedKeepsItsSlot) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 2 1000 cuda:0");
  publish(writer, 1);
  reader.is_ok("read a -");
  reader.is_ok("gate r");
  reader.is_ok("look a 1 r");
  reader.is_ok("blocking_stream c");
  reader.is_ok("capture c 0 own");
  EXPECT_EQ(error(reader, "release a"), "InvalidArgument");
  publish(writer, 2);
  writer.say("write a s");
  EXPECT_TRUE(becomes([&] { return writer.sleeps_on_words(); }));
  EXPECT_EQ(reader.is_ok("end_capture c"), "0");
  reader.is_ok("ungate");
  EXPECT_EQ(reader.is_ok("get a"), "2 2 2");
  EXPECT_TRUE(writer.answer().ok());
  writer.is_ok("fill a 3 s");
  writer.is_ok("publish a");
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
}

// R-SYNC-15: likewise.
TEST_F(DeviceArrays, AWriteThatIsDroppedWhileAGraphIsCapturedKeepsItsSlot) {
  Client writer(daemon);
  Client other(daemon);
  writer.is_ok("create a 2 1000 cuda:0");
  publish(writer, 1);
  writer.is_ok("synchronize s");
  writer.is_ok("write a -");
  writer.is_ok("gate s");
  writer.is_ok("fill a 9 s");
  writer.is_ok("blocking_stream c");
  writer.is_ok("capture c 0 own");
  EXPECT_EQ(error(writer, "publish a"), "InvalidArgument");
  other.say("write a o");
  EXPECT_TRUE(becomes([&] { return other.sleeps_on_words(); }));
  EXPECT_EQ(writer.is_ok("end_capture c"), "0");
  writer.is_ok("ungate");
  EXPECT_EQ(writer.is_ok("get a"), "1 1 1");
  EXPECT_TRUE(other.answer().ok());
  other.is_ok("fill a 2 o");
  other.is_ok("publish a");
  EXPECT_THAT(writer.is_ok("get a"), ::testing::EndsWith(" 2 2"));
}

// R-SYNC-15: so does a capture elsewhere that the legacy stream would take part in.
TEST_F(DeviceArrays, TheLegacyStreamIsRefusedWhileABlockingOneIsCaptured) {
  Client client(daemon);
  client.is_ok("create a 2 1000 cuda:0");
  publish(client, 1);
  client.is_ok("blocking_stream b");
  client.is_ok("capture b 0 own");
  EXPECT_EQ(error(client, "read a legacy"), "InvalidArgument");
  EXPECT_EQ(client.is_ok("end_capture b"), "0");
  client.is_ok("read a legacy");
  client.is_ok("release a");
}

// R-SYNC-15: a graph that is captured holds no wait of ours.
TEST_F(DeviceArrays, StreamsThatCaptureAGraphAreRefusedAndTheLeaseIsGone) {
  Client client(daemon);
  client.is_ok("create a 2 10 cuda:0");
  publish(client, 1);
  client.is_ok("capture c 0 own");
  const Answer capturing = client.ask("read a c");
  EXPECT_EQ(capturing.code, "InvalidArgument");
  EXPECT_THAT(capturing.text, HasSubstr("capturing a graph"));
  EXPECT_EQ(client.is_ok("end_capture c"), "0");
  publish(client, 2);
  publish(client, 3);
}

TEST_F(DeviceArrays, MoreThanTheGpuHasIsOutOfMemoryAndLosesNothing) {
  FAKECUDA_STAND_IN_ONLY();
  Client client(daemon);
  EXPECT_EQ(error(client, "create big 3 100000000 cuda:0"), "OutOfMemory");
  client.is_ok("create a 3 1000 cuda:0");
  publish(client, 1);
  EXPECT_EQ(client.is_ok("get a"), "1 1 1");
}

TEST_F(DeviceArrays, AFailedCreationLeavesNothing) {
  FAKECUDA_STAND_IN_ONLY();
  Client client(daemon);
  for (const char* const call : {"cudaMalloc", "cudaIpcGetMemHandle", "cudaMemsetAsync"}) {
    world->fail(call, 999);
    EXPECT_EQ(error(client, "create a 3 1000 cuda:0"), "Internal") << call;
    world->never_fail();
  }
  client.is_ok("create a 3 1000 cuda:0");
}

TEST_F(DeviceArrays, WhereMemoryCannotBeOpenedOthersGoOn) {
  FAKECUDA_STAND_IN_ONLY();
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 3 1000 cuda:0");
  publish(writer, 1);
  world->fail("cudaIpcOpenMemHandle", 999);
  EXPECT_EQ(error(reader, "get a"), "Internal");
  world->never_fail();
  EXPECT_EQ(reader.is_ok("get a"), "1 1 1");
}

}  // namespace
}  // namespace memlease::testing
