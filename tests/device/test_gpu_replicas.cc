// Arrays on one GPU and their replicas on another: what follows, who writes, and what a process
// sees that has only one of the two. The stand-in alone has two GPUs. The checker looks at the end
// of each test whether anything has run that nothing orders.
#include <csignal>
#include <cstdlib>
#include <string>

#include "memlease/v1/admin.pb.h"
#include "tests/device/fixture.h"

namespace memlease::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class GpuReplicas : public DeviceTest {
 protected:
  using DeviceTest::DeviceTest;
  void SetUp() override { FAKECUDA_STAND_IN_ONLY(); }

  // The array "a" of "cuda:0", with 7 in version 1, and the reader's "b", the same on "cuda:1".
  void make() {
    writer.is_ok("create a 3 1000 cuda:0");
    publish(writer, 7);
    EXPECT_THAT(reader.is_ok("on a cuda:1 b"), StartsWith("GPU-"));
    work_on_second(reader);
  }
  static void work_on_second(Client& client) { client.is_ok("work_on 1"); }
  // By a kernel of "cuda:1" on the stream "r", which goes on.
  static void look(Client& client, int expected) {
    client.is_ok("read b r");
    client.is_ok("look b " + std::to_string(expected) + " r");
    client.is_ok("release b");
  }
  static std::string mismatches(Client& client) { return client.is_ok("mismatches r"); }
  static void publish_there(Client& client, int value) {
    client.is_ok("write b t");
    client.is_ok("fill b " + std::to_string(value) + " t");
    client.is_ok("publish b");
  }

  Client writer{daemon};
  Client reader{daemon};
};

TEST_F(GpuReplicas, AreOnTheGpuThatWasAskedFor) {
  make();
  const std::string there = writer.is_ok("on a cuda:1 b");
  EXPECT_NE(there, writer.is_ok("open a"));
  EXPECT_EQ(reader.is_ok("ordinal b"), "1");
  EXPECT_EQ(reader.is_ok("on a " + there + " same"), there);
  EXPECT_EQ(arrays(), 2U) << "one for both processes";
}

TEST_F(GpuReplicas, FollowVersionByVersion) {
  make();
  for (int value = 8; value < 14; ++value) {
    look(reader, value - 1);
    publish(writer, value);
  }
  look(reader, 13);
  EXPECT_EQ(mismatches(reader), "0");
  EXPECT_EQ(reader.is_ok("get b"), "7 13 13");
  EXPECT_EQ(reader.is_ok("get a"), "7 13 13");
}

TEST_F(GpuReplicas, AreCopiedOncePerVersionHoweverManyRead) {
  make();
  Client other(daemon);
  other.is_ok("on a cuda:1 b");
  work_on_second(other);
  for (Client* client : {&reader, &other, &reader}) look(*client, 7);
  EXPECT_EQ(reader.is_ok("copies"), "1");
  EXPECT_EQ(other.is_ok("copies"), "0");
  const std::string calls = other.is_ok("calls");
  look(other, 7);
  EXPECT_EQ(other.is_ok("calls"), calls);
  EXPECT_EQ(mismatches(reader), "0");
  EXPECT_EQ(mismatches(other), "0");
}

TEST_F(GpuReplicas, AreCopiedBehindTheWritersWork) {
  make();
  publish_unfinished(writer, 8);
  reader.say("read b r");
  EXPECT_TRUE(waits(reader));
  writer.is_ok("ungate");
  EXPECT_THAT(reader.answer().text, StartsWith("2 "));
  reader.is_ok("look b 8 r");
  reader.is_ok("release b");
  EXPECT_EQ(mismatches(reader), "0");
}

// With two slots the third version goes where the first one was, behind who reads that: its stream
// goes on after the lease.
TEST_F(GpuReplicas, AreNotRefreshedUnderAKernelThatReadsThem) {
  writer.is_ok("create a 2 1000 cuda:0");
  publish(writer, 7);
  reader.is_ok("on a cuda:1 b");
  work_on_second(reader);
  reader.is_ok("gate r");
  look(reader, 7);
  Client other(daemon);
  other.is_ok("on a cuda:1 b");
  publish(writer, 8);
  EXPECT_EQ(other.is_ok("get b"), "2 8 8");
  publish(writer, 9);
  other.say("get b");
  EXPECT_TRUE(waits(other));
  reader.is_ok("ungate");
  EXPECT_EQ(other.answer().text, "3 9 9");
  EXPECT_EQ(mismatches(reader), "0");
}

TEST_F(GpuReplicas, AreWrittenWhereTheyAre) {
  make();
  look(reader, 7);
  publish_there(reader, 9);
  EXPECT_EQ(writer.is_ok("version a"), "2");
  writer.is_ok("read a s");
  writer.is_ok("look a 9 s");
  writer.is_ok("release a");
  EXPECT_EQ(writer.is_ok("mismatches s"), "0");
  publish(writer, 10);
  look(reader, 10);
  EXPECT_EQ(mismatches(reader), "0");
  publish_there(reader, 11);
  EXPECT_EQ(writer.is_ok("get a"), "4 11 11");
}

TEST_F(GpuReplicas, AnUpdateThereBeginsWithTheNewestVersion) {
  make();
  reader.is_ok("update b t");
  reader.is_ok("add b 3 t");
  EXPECT_EQ(reader.is_ok("publish b"), "2");
  EXPECT_EQ(writer.is_ok("get a"), "2 10 10");
}

TEST_F(GpuReplicas, OneArrayIsOnTwoGpusAndOnTheHost) {
  make();
  Client third(daemon);
  third.is_ok("on a host h");
  EXPECT_EQ(third.is_ok("put h 5"), "2");
  look(reader, 5);
  EXPECT_EQ(mismatches(reader), "0");
  publish_there(reader, 6);
  EXPECT_EQ(third.is_ok("get h"), "3 6 6");
  EXPECT_EQ(writer.is_ok("get a"), "3 6 6");
  EXPECT_EQ(arrays(), 3U);
}

TEST_F(GpuReplicas, AnotherReaderCopiesWhatOneDiedOf) {
  make();
  reader.is_ok("arm device.replica_copied 1 9");
  reader.say("get b");
  EXPECT_EQ(reader.wait_for_signal(), SIGKILL);
  Client next(daemon);
  next.is_ok("on a cuda:1 b");
  EXPECT_EQ(next.is_ok("get b"), "2 7 7");
  EXPECT_EQ(writer.is_ok("get a"), "2 7 7");
}

// A control: a copy comes behind what the writer there has recorded.
TEST_F(GpuReplicas, RaceIfTheWriterThereRecordsNothing) {
  make();
  reader.is_ok("leave_out record the write");
  publish_there(reader, 9);
  writer.is_ok("get a");
  reader.is_ok("synchronize t");
  expect_race("tk_fill", "cudaMemcpyAsync");
}

TEST_F(GpuReplicas, AProcessThatDoesNotSeeTheGpuIsRefused) {
  make();
  EXPECT_EQ(reader.is_ok("get b"), "1 7 7");
  const std::string there = reader.is_ok("open b");
  setenv("CUDA_VISIBLE_DEVICES", "0", 1);
  Client first_alone(daemon);
  setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  Client second_alone(daemon);
  unsetenv("CUDA_VISIBLE_DEVICES");
  for (const std::string& device : {std::string("cuda:1"), there}) {
    const Answer answer = first_alone.ask("on a " + device + " b");
    EXPECT_EQ(answer.code, "Unsupported") << device;
    EXPECT_THAT(answer.text, ContainsRegex("sees 1 GPU|is not visible to this process")) << device;
  }
  EXPECT_EQ(first_alone.is_ok("get a"), "1 7 7") << "what it sees it reads";
  EXPECT_EQ(error(second_alone, "open a"), "Unsupported");
  EXPECT_EQ(arrays(), 2U) << "nothing was made";
  publish(writer, 8);
  EXPECT_EQ(reader.is_ok("get b"), "2 8 8");
}

// The newest version is where a process cannot look; it says so, and gives no old one.
TEST_F(GpuReplicas, WhoCannotReachTheNewestVersionIsTold) {
  make();
  publish_there(reader, 9);
  setenv("CUDA_VISIBLE_DEVICES", "0", 1);
  Client first_alone(daemon);
  unsetenv("CUDA_VISIBLE_DEVICES");
  const Answer answer = first_alone.ask("get a");
  EXPECT_EQ(answer.code, "Unsupported");
  EXPECT_THAT(answer.text, HasSubstr("the newest version of 'a' is out of this process's reach"));
  EXPECT_EQ(writer.is_ok("get a"), "2 9 9");
  EXPECT_EQ(first_alone.is_ok("get a"), "2 9 9") << "once somebody has brought it home";
  first_alone.is_ok("on a host h");
  EXPECT_EQ(first_alone.is_ok("get h"), "2 9 9") << "from where it can be reached";
  EXPECT_EQ(first_alone.is_ok("put h 10"), "3");
  EXPECT_EQ(reader.is_ok("get b"), "3 10 10");
}

// Nor does its wait look for that again and again.
TEST_F(GpuReplicas, WhoCannotReachWhatWasGivenUpIsTold) {
  writer.is_ok("create a 1 1000 host");
  writer.is_ok("put a 7");
  EXPECT_THAT(reader.is_ok("on a cuda:1 b"), StartsWith("GPU-"));
  work_on_second(reader);
  publish_there(reader, 9);
  EXPECT_EQ(writer.is_ok("get a"), "2 9 9");
  setenv("CUDA_VISIBLE_DEVICES", "0", 1);
  Client first_alone(daemon);
  unsetenv("CUDA_VISIBLE_DEVICES");
  reader.is_ok("write b t");
  reader.is_ok("drop b t");
  EXPECT_EQ(error(first_alone, "read a - 2"), "WriteAborted");
  EXPECT_EQ(first_alone.is_ok("get a"), "2 9 9");
}

}  // namespace
}  // namespace memlease::testing
