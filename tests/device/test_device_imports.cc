// Elements that somebody else has on a GPU, put into arrays: Array::put(GpuSource) and
// WriteLease::put(). A source is memory of the peer's own, freed when nobody keeps it any more, so
// the checker tells if a copy still reads it then, and what nothing orders.
#include <string>

#include "tests/device/fixture.h"

namespace memlease::testing {
namespace {

using ::testing::HasSubstr;

class DeviceImports : public DeviceTest {
 protected:
  // Elements of a source, all `value`, by a kernel on the producer's stream "p".
  static void produce(Client& client, int value) {
    client.is_ok("produce b 0 1000 " + std::to_string(value) + " p");
  }
  // The producer's stream has no end until the other one's "ungate": it waits for a version of his.
  static void hold_up(Client& client, Client& other) {
    client.is_ok("create x 2 10 cuda:0");
    other.is_ok("gate s");
    other.is_ok("write x s");
    other.is_ok("publish x");
    client.is_ok("read x p");
    client.is_ok("release x");
  }
  // That a put of the source is refused with these words, and loses nothing.
  static void expect_refused(Client& client, const std::string& command, const std::string& code,
                             const std::string& words) {
    const std::string before = client.is_ok("version a");
    const Answer answer = client.ask(command);
    EXPECT_EQ(answer.code, code) << answer.describe();
    EXPECT_THAT(answer.text, HasSubstr(words));
    EXPECT_EQ(client.is_ok("version a"), before);
  }
};

// ---- On a stream.

// R-CAI-14: the copy is behind the producer, and what the producer does next is behind the copy.
TEST_F(DeviceImports, ACopyOnAStreamIsOrderedAndNotWaitedFor) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 2 1000 cuda:0");
  writer.is_ok("source b 1000 p");
  writer.is_ok("gate p");
  produce(writer, 7);
  EXPECT_EQ(writer.is_ok("put_source a b s"), "1");
  EXPECT_EQ(writer.is_ok("idle s"), "0");
  produce(writer, 8);
  read(reader, 7);
  writer.is_ok("ungate");
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
  writer.is_ok("synchronize p");
}

// R-CAI-14: a control; the library names no stream, and so nothing waits for its work.
TEST_F(DeviceImports, WhatAProducerDoesOnAStreamThatItDoesNotNameRaces) {
  FAKECUDA_STAND_IN_ONLY();
  {
    Client writer(daemon);
    writer.is_ok("create a 2 1000 cuda:0");
    writer.is_ok("source b 1000 -");
    produce(writer, 7);
    writer.is_ok("put_source a b s");
    writer.is_ok("synchronize s");
    writer.is_ok("synchronize p");
  }
  expect_race("tk_fill", "cudaMemcpyAsync");
}

// R-CAI-14: a control; the copy waits, and the producer goes on beside it.
TEST_F(DeviceImports, WhatAProducerDoesNextOnAnotherStreamRaces) {
  FAKECUDA_STAND_IN_ONLY();
  {
    Client writer(daemon);
    writer.is_ok("create a 2 1000 cuda:0");
    writer.is_ok("source b 1000 p");
    produce(writer, 7);
    writer.is_ok("synchronize p");  // races with the copy alone, in whichever order they run
    writer.is_ok("put_source a b s");
    writer.is_ok("produce b 0 1000 8 other");
    writer.is_ok("synchronize other");
  }
  expect_race("tk_fill", "cudaMemcpyAsync");
}

// R-CAI-17: freed before, the copy would be a use after free.
TEST_F(DeviceImports, TheSourceIsKeptUntilTheGpuHasCopiedIt) {
  Client writer(daemon);
  writer.is_ok("create a 2 1000 cuda:0");
  writer.is_ok("source b 1000 p");
  produce(writer, 7);
  writer.is_ok("gate s");
  writer.is_ok("put_source a b s");
  writer.is_ok("forget b");
  writer.is_ok("read a s");  // looks whether the copy is done
  writer.is_ok("release a");
  EXPECT_EQ(writer.is_ok("kept b"), "1");
  writer.is_ok("ungate");
  writer.is_ok("synchronize s");
  EXPECT_EQ(writer.is_ok("kept b"), "1");  // nobody has looked
  EXPECT_EQ(writer.is_ok("get a"), "1 7 7");
  EXPECT_EQ(writer.is_ok("kept b"), "0");
}

// R-SYNC-5: as a kernel on that stream would be.
TEST_F(DeviceImports, ACopyWaitsForReadersOfItsSlot) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 1 1000 cuda:0");
  writer.is_ok("source b 1000 p");
  publish(writer, 1);
  reader.is_ok("gate r");
  read(reader, 1);
  produce(writer, 2);
  writer.is_ok("put_source a b s");
  EXPECT_EQ(writer.is_ok("idle s"), "0");
  reader.is_ok("ungate");
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
  EXPECT_EQ(reader.is_ok("get a"), "2 2 2");
}

TEST_F(DeviceImports, TheProducersOwnStreamMayBeTheOneOfTheCopy) {
  Client client(daemon);
  client.is_ok("create a 2 1000 cuda:0");
  client.is_ok("source b 1000 p");
  for (int value = 1; value <= 3; ++value) {
    produce(client, value);
    client.is_ok("put_source a b p");
  }
  EXPECT_EQ(client.is_ok("get a"), "3 3 3");
}

// ---- Without one.

// R-CAI-14: for the producer's work, and for the copy.
TEST_F(DeviceImports, WithoutAStreamTheHostWaits) {
  Client other(daemon);
  Client client(daemon);
  client.is_ok("create a 2 1000 cuda:0");
  client.is_ok("source b 1000 p");
  hold_up(client, other);
  produce(client, 7);
  client.say("put_source a b -");
  EXPECT_TRUE(waits(client));
  other.is_ok("ungate");
  EXPECT_EQ(client.answer().text, "1");
  EXPECT_EQ(client.is_ok("get a"), "1 7 7");
}

// R-CAI-17: the copy is over.
TEST_F(DeviceImports, WithoutAStreamTheSourceIsNotKept) {
  Client client(daemon);
  client.is_ok("create a 2 1000 cuda:0");
  client.is_ok("source b 1000 p");
  produce(client, 7);
  client.is_ok("put_source a b -");
  client.is_ok("forget b");
  EXPECT_EQ(client.is_ok("kept b"), "0");
  EXPECT_EQ(client.is_ok("get a"), "1 7 7");
}

// R-CAI-14: also there the producer is waited for, with and without a stream.
TEST_F(DeviceImports, ACopyToTheHostIsOverWhenTheCallReturns) {
  Client other(daemon);
  Client client(daemon);
  client.is_ok("create a 2 1000 host");
  client.is_ok("source b 1000 p");
  hold_up(client, other);
  produce(client, 7);
  client.say("put_source a b s");
  EXPECT_TRUE(waits(client));
  other.is_ok("ungate");
  EXPECT_EQ(client.answer().text, "1");
  produce(client, 8);
  EXPECT_EQ(client.is_ok("get a"), "1 7 7");
  client.is_ok("put_source a b -");
  EXPECT_EQ(client.is_ok("get a"), "2 8 8");
}

// ---- Into a lease.

TEST_F(DeviceImports, ALeaseIsFilledOnItsStreamBeforeWhatComesLater) {
  Client writer(daemon);
  Client reader(daemon);
  writer.is_ok("create a 2 1000 cuda:0");
  writer.is_ok("source b 1000 p");
  writer.is_ok("gate p");
  produce(writer, 7);
  writer.is_ok("write a s");
  writer.is_ok("fill_from a b");
  writer.is_ok("add a 3 s");
  writer.is_ok("publish a");
  EXPECT_EQ(writer.is_ok("idle s"), "0");
  produce(writer, 8);
  read(reader, 10);
  writer.is_ok("ungate");
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
  writer.is_ok("synchronize p");
}

TEST_F(DeviceImports, ALeaseWithoutAStreamIsFilledWhenTheCallReturns) {
  Client client(daemon);
  client.is_ok("create a 2 1000 cuda:0");
  client.is_ok("source b 1000 p");
  produce(client, 7);
  client.is_ok("write a -");
  client.is_ok("fill_from a b");
  client.is_ok("add a 3 s");
  client.is_ok("publish a s");
  EXPECT_EQ(client.is_ok("get a"), "1 10 10");
}

TEST_F(DeviceImports, ALeaseGoesOnAfterASourceThatIsRefused) {
  Client client(daemon);
  client.is_ok("create a 2 1000 cuda:0");
  client.is_ok("source b 1000 p");
  produce(client, 7);
  client.is_ok("write a s");
  client.is_ok("strides b 8 8");
  EXPECT_EQ(error(client, "fill_from a b"), "InvalidArgument");
  client.is_ok("strides b 8");
  client.is_ok("fill_from a b");
  client.is_ok("publish a");
  EXPECT_EQ(client.is_ok("get a"), "1 7 7");
}

// ---- How elements stand.

// With gaps of one element the last of ten is the 19th word; packed it would be the tenth.
class DeviceImportsWithGaps : public DeviceImports {
 protected:
  static void create(Client& client, const std::string& device) {
    client.is_ok("create a 2 10 " + device + " 16");
    client.is_ok("source b 19 p");
    client.is_ok("produce b 0 19 1 p");
    client.is_ok("produce b 9 1 5 p");
    client.is_ok("produce b 18 1 9 p");
  }
};

// R-CAI-14: in pieces, and what is in the gaps is nobody's.
TEST_F(DeviceImportsWithGaps, WhatStandsAlikeIsCopied) {
  Client client(daemon);
  create(client, "cuda:0");
  client.is_ok("strides b 16");
  client.is_ok("put_source a b s");
  EXPECT_EQ(client.is_ok("get a"), "1 1 9");
  client.is_ok("put_source a b -");
  EXPECT_EQ(client.is_ok("get a"), "2 1 9");
}

TEST_F(DeviceImportsWithGaps, TheHostTakesCOrderToo) {
  Client client(daemon);
  create(client, "host");
  client.is_ok("put_source a b -");
  EXPECT_EQ(client.is_ok("get a"), "1 1 5");
  client.is_ok("strides b 16");
  client.is_ok("put_source a b -");
  EXPECT_EQ(client.is_ok("get a"), "2 1 9");
}

TEST_F(DeviceImportsWithGaps, AGpuChangesNoOrder) {
  Client client(daemon);
  create(client, "cuda:0");
  expect_refused(client, "put_source a b s", "Unsupported", "bytes are [8], those of 'a' [16]");
  client.is_ok("strides b 24");
  expect_refused(client, "put_source a b -", "Unsupported", "[24]");
}

// R-DLP-7: then the pointer is anything.
TEST_F(DeviceImports, NoElementsAreCopiedFromNowhere) {
  Client client(daemon);
  client.is_ok("create a 2 0 cuda:0");
  client.is_ok("source b 1 p");
  client.is_ok("move_to_host b");
  EXPECT_EQ(client.is_ok("put_source a b s"), "1");
  EXPECT_EQ(client.is_ok("put_source a b -"), "2");
  client.is_ok("forget b");
  EXPECT_EQ(client.is_ok("kept b"), "0");
}

// ---- What is refused publishes nothing.

TEST_F(DeviceImports, StridesThatAreNotOneADimensionAreRefused) {
  Client client(daemon);
  client.is_ok("create a 2 1000 cuda:0");
  client.is_ok("source b 1000 p");
  client.is_ok("strides b 8 8");
  expect_refused(client, "put_source a b s", "InvalidArgument", "2 strides, and 'a' 1 dimensions");
}

// R-CAI-18: CUDA does not know it as memory of a GPU's.
TEST_F(DeviceImports, MemoryOfTheHostIsRefused) {
  Client client(daemon);
  client.is_ok("create a 2 1000 cuda:0");
  client.is_ok("source b 1000 p");
  client.is_ok("move_to_host b");
  expect_refused(client, "put_source a b s", "InvalidArgument", "is in no GPU's memory");
}

// R-CAI-18, R-SYNC-1: to the host it may come from any of them.
TEST_F(DeviceImports, MemoryOfAnotherGpuIsRefused) {
  FAKECUDA_STAND_IN_ONLY();
  Client client(daemon);
  client.is_ok("create a 2 1000 cuda:0");
  client.is_ok("create h 2 1000 host");
  client.is_ok("set_device 1");
  client.is_ok("source b 1000 p");
  produce(client, 7);
  client.is_ok("set_device 0");
  expect_refused(client, "put_source a b -", "InvalidArgument", "on cuda:1, and 'a' on cuda:0");
  client.is_ok("put_source h b -");
  EXPECT_EQ(client.is_ok("get h"), "1 7 7");
}

// R-SYNC-1: theirs and ours.
TEST_F(DeviceImports, StreamsOfAnotherGpuAreRefused) {
  FAKECUDA_STAND_IN_ONLY();
  Client client(daemon);
  client.is_ok("create a 2 1000 cuda:0");
  client.is_ok("stream_on 1 other");
  client.is_ok("source b 1000 other");
  client.is_ok("source c 1000 -");
  expect_refused(client, "put_source a b s", "InvalidArgument", "is one of cuda:1");
  expect_refused(client, "put_source a c other", "InvalidArgument", "is one of cuda:1");
  client.is_ok("put_source a c s");
}

// R-SYNC-15: theirs and ours.
TEST_F(DeviceImports, StreamsThatCaptureAGraphAreRefused) {
  Client client(daemon);
  client.is_ok("create a 2 1000 cuda:0");
  client.is_ok("source b 1000 p");
  client.is_ok("source c 1000 -");
  client.is_ok("capture p 2 own");
  expect_refused(client, "put_source a b s", "InvalidArgument", "capturing a graph");
  expect_refused(client, "put_source a c p", "InvalidArgument", "capturing a graph");
  EXPECT_EQ(client.is_ok("end_capture p"), "0");
  client.is_ok("put_source a b s");
}

// R-CAI-17: behind whatever has been enqueued.
TEST_F(DeviceImports, ACopyThatFailsIsDropped) {
  FAKECUDA_STAND_IN_ONLY();
  Client client(daemon);
  client.is_ok("create a 2 1000 cuda:0");
  client.is_ok("source b 1000 p");
  produce(client, 7);
  for (const char* const stream : {"s", "-"}) {
    world->fail("cudaMemcpyAsync", 1);
    expect_refused(client, std::string("put_source a b ") + stream, "Internal",
                   "cudaErrorInvalidValue");
  }
  client.is_ok("put_source a b s");
  EXPECT_EQ(client.is_ok("get a").substr(2), "7 7");
}

}  // namespace
}  // namespace memlease::testing
