// Arrays on a GPU and on the host at once: where the newest version is, who copies it, and what
// death leaves. The checker looks at the end of each test whether anything has run that nothing
// orders.
#include <csignal>
#include <set>
#include <string>

#include "memlease/v1/admin.pb.h"
#include "tests/device/fixture.h"

namespace memlease::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class Replicas : public DeviceTest {
 protected:
  // The array "a" of "cuda:0", with 7 in version 1, and "h", the same on the host.
  void make() {
    writer.is_ok("create a 3 1000 cuda:0");
    publish(writer, 7);
    EXPECT_EQ(reader.is_ok("on a host h"), "host");
  }
  // In the middle of a copy: the number is lost there, and the content gets another one.
  static void die_copying(Client& peer, const std::string& call) {
    peer.is_ok("arm device.replica_copied 1 9");
    peer.say(call);
    EXPECT_EQ(peer.wait_for_signal(), SIGKILL);
  }
  std::uint64_t copies(Client& peer) { return std::stoull(peer.is_ok("copies")); }
  // To a place of the array, by all processes so far.
  std::uint64_t copies_to(const std::string& name) {
    const auto listed = daemon.admin().list_arrays(name);
    if (!listed.ok() || listed->arrays_size() != 1) return ~std::uint64_t{0};
    return listed->arrays(0).copied_versions();
  }
  // Since the daemon began, which other tests may have used.
  std::uint64_t counted(const std::string& metric) {
    const auto metrics = daemon.admin().metrics();
    if (!metrics.ok()) return ~std::uint64_t{0};
    const std::string line = "\n" + metric + " ";
    return std::stoull(metrics->text().substr(metrics->text().find(line) + line.size()));
  }

  Client writer{daemon};
  Client reader{daemon};
};

TEST_F(Replicas, ReadingElsewhereGivesTheNewestVersion) {
  make();
  EXPECT_EQ(reader.is_ok("get h"), "1 7 7");
  publish(writer, 8);
  EXPECT_EQ(reader.is_ok("version h"), "2");
  EXPECT_EQ(reader.is_ok("get h"), "2 8 8");
}

TEST_F(Replicas, AHostArrayIsReadOnAGpu) {
  writer.is_ok("create b 3 1000 host");
  writer.is_ok("put b 5");
  EXPECT_THAT(reader.is_ok("on b cuda:0 g"), StartsWith("GPU-"));
  EXPECT_THAT(reader.is_ok("read g r"), StartsWith("1 "));
  reader.is_ok("look g 5 r");
  reader.is_ok("release g");
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
}

// It is the stream that copies, and the bytes stay until it has.
TEST_F(Replicas, TheReadersStreamCopiesFromTheHost) {
  writer.is_ok("create b 3 1000 host");
  writer.is_ok("put b 5");
  reader.is_ok("on b cuda:0 g");
  reader.is_ok("gate r");
  reader.is_ok("read g r");
  reader.is_ok("look g 5 r");
  reader.is_ok("release g");
  EXPECT_EQ(reader.is_ok("idle r"), "0");
  for (int value = 6; value < 12; ++value) writer.is_ok("put b " + std::to_string(value));
  reader.is_ok("ungate");
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
  reader.is_ok("read g r");
  reader.is_ok("look g 11 r");
  reader.is_ok("release g");
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
}

TEST_F(Replicas, OnItsOwnDeviceAnArrayIsItself) {
  make();
  EXPECT_THAT(writer.is_ok("on a cuda:0 b"), StartsWith("GPU-"));
  EXPECT_EQ(reader.is_ok("on h cuda:0 b"), writer.is_ok("open a"));
  EXPECT_EQ(reader.is_ok("get b"), "1 7 7");
  EXPECT_EQ(arrays(), 2U);
}

TEST_F(Replicas, AVersionIsCopiedOnceHoweverManyRead) {
  make();
  Client other(daemon);
  other.is_ok("on a host h");
  reader.is_ok("read h -");
  reader.is_ok("release h");
  EXPECT_EQ(copies(reader), 1U);
  for (Client* peer : {&reader, &other}) {
    peer->is_ok("read h -");
    peer->is_ok("release h");
  }
  EXPECT_EQ(copies(reader), 1U);
  EXPECT_EQ(copies(other), 0U);
}

TEST_F(Replicas, WhatIsThereIsReadWithoutACallOrACopy) {
  make();
  reader.is_ok("get h");
  const std::string calls = reader.is_ok("calls");
  for (int i = 0; i < 3; ++i) {
    reader.is_ok("read h -");
    reader.is_ok("release h");
  }
  EXPECT_EQ(reader.is_ok("calls"), calls);
  // The reader is the replica's writer from its first copy on.
  publish(writer, 8);
  EXPECT_EQ(reader.is_ok("get h"), "2 8 8");
  publish(writer, 9);
  const std::string before = reader.is_ok("calls");
  EXPECT_EQ(reader.is_ok("get h"), "3 9 9");
  EXPECT_EQ(reader.is_ok("calls"), before);
}

// Of each place, whoever made them and wherever he is by now: the daemon only looks.
TEST_F(Replicas, CopiesAreCountedForOperators) {
  const std::uint64_t versions = counted("memlease_copied_versions_total");
  const std::uint64_t bytes = counted("memlease_copied_bytes_total");
  make();
  EXPECT_EQ(reader.is_ok("get h"), "1 7 7");
  EXPECT_EQ(reader.is_ok("get h"), "1 7 7");
  EXPECT_EQ(copies_to("a@host"), 1U);
  Client other(daemon);
  other.is_ok("on a host h");
  publish(writer, 8);
  EXPECT_EQ(other.is_ok("get h"), "2 8 8");
  EXPECT_EQ(copies_to("a@host"), 2U);
  EXPECT_EQ(other.is_ok("put h 9"), "3") << "which is no copy";
  EXPECT_EQ(copies_to("a@host"), 2U);
  EXPECT_EQ(copies_to("a"), 0U);
  EXPECT_EQ(writer.is_ok("get a"), "3 9 9");
  EXPECT_EQ(copies_to("a"), 1U);
  for (Client* peer : {&reader, &other}) peer->kill();
  writer.is_ok("close a");  // and with it the replica, where it has looked
  EXPECT_TRUE(becomes([&] { return arrays() == 1; })) << "the replica goes";
  EXPECT_EQ(copies_to("a"), 1U);
  EXPECT_EQ(counted("memlease_copied_versions_total"), versions + 3);
  EXPECT_EQ(counted("memlease_copied_bytes_total"), bytes + 24000);
}

TEST_F(Replicas, ACopyThatCameToNothingIsNotCounted) {
  make();
  die_copying(reader, "get h");
  EXPECT_EQ(copies_to("a@host"), 0U);
}

TEST_F(Replicas, TheCopyComesBehindWorkThatIsUnderWay) {
  make();
  publish_unfinished(writer, 8);
  reader.say("get h");
  EXPECT_TRUE(waits(reader));
  writer.is_ok("ungate");
  EXPECT_EQ(reader.answer().text, "2 8 8");
}

TEST_F(Replicas, WritingThereMakesTheArraysNextVersion) {
  make();
  EXPECT_EQ(reader.is_ok("put h 9"), "2");
  EXPECT_EQ(writer.is_ok("version a"), "2");
  EXPECT_EQ(writer.is_ok("get a"), "2 9 9");
  Client third(daemon);
  EXPECT_EQ(third.is_ok("get a"), "2 9 9");
}

TEST_F(Replicas, TwoWritersOnTwoDevicesWriteOneArray) {
  make();
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(writer.is_ok("put a " + std::to_string(10 + i)), std::to_string(2 + 2 * i));
    EXPECT_EQ(reader.is_ok("put h " + std::to_string(20 + i)), std::to_string(3 + 2 * i));
  }
  EXPECT_EQ(writer.is_ok("get a"), "11 24 24");
  EXPECT_EQ(reader.is_ok("get h"), "11 24 24");
}

TEST_F(Replicas, AWriteThereKeepsWritersElsewhereWaiting) {
  make();
  reader.is_ok("write h -");
  EXPECT_EQ(error(writer, "write a s 50"), "Timeout");
  reader.is_ok("drop h");
  EXPECT_EQ(writer.is_ok("put a 3"), "3") << "the number that was dropped is nobody's";
  EXPECT_EQ(reader.is_ok("get h"), "3 3 3");
}

TEST_F(Replicas, WhoWaitsAtHomeSeesWhatIsWrittenElsewhere) {
  make();
  Client waiting(daemon);
  waiting.is_ok("get a");
  waiting.say("read a r 1");
  EXPECT_EQ(waiting.answer(100).kind, Answer::Kind::kSilent);
  EXPECT_EQ(reader.is_ok("put h 9"), "2");
  EXPECT_THAT(waiting.answer().text, StartsWith("2 "));
  waiting.is_ok("release a");
  // Once more, now that it knows of the replica.
  waiting.say("read a r 2");
  EXPECT_EQ(reader.is_ok("put h 10"), "3");
  EXPECT_THAT(waiting.answer().text, StartsWith("3 "));
}

TEST_F(Replicas, WhoWaitsElsewhereSeesWhatIsWrittenAtHome) {
  make();
  reader.is_ok("get h");
  reader.say("read h - 1");
  publish(writer, 8);
  EXPECT_THAT(reader.answer().text, StartsWith("2 "));
}

TEST_F(Replicas, AnUpdateBeginsWithTheNewestVersionFromWhereverItIs) {
  make();
  EXPECT_EQ(reader.is_ok("put h 9"), "2");
  writer.is_ok("update a s");
  writer.is_ok("add a 3 s");
  EXPECT_EQ(writer.is_ok("publish a"), "3");
  EXPECT_EQ(reader.is_ok("get h"), "3 12 12");
}

TEST_F(Replicas, WhoWritesHereHimselfIsNotKeptWaitingForThat) {
  make();
  reader.is_ok("write h -");
  EXPECT_EQ(error(reader, "read h -"), "Busy");
  reader.is_ok("drop h");
  EXPECT_EQ(reader.is_ok("get h"), "1 7 7");
}

TEST_F(Replicas, StridesAreCopiedAsTheyAre) {
  writer.is_ok("create c 3 1000 cuda:0 24");
  EXPECT_EQ(writer.is_ok("put c 4"), "1");
  reader.is_ok("on c host h");
  EXPECT_EQ(reader.is_ok("get h"), "1 4 4");
}

TEST_F(Replicas, GoOnceNobodyHasThemOpenAndTheirHomeHasAll) {
  make();
  EXPECT_EQ(reader.is_ok("get h"), "1 7 7");
  EXPECT_EQ(arrays(), 2U);
  reader.is_ok("close h");
  EXPECT_TRUE(becomes([&] { return arrays() == 1; }));
}

TEST_F(Replicas, StayWhileTheyAloneHaveTheNewestVersion) {
  make();
  EXPECT_EQ(reader.is_ok("put h 9"), "2");
  EXPECT_EQ(error(writer, "withdraw a@host"), "Busy");
  reader.kill();
  EXPECT_EQ(writer.is_ok("get a"), "2 9 9");
  // The copy is in the home now.
  writer.is_ok("close a");
  EXPECT_EQ(writer.is_ok("get a"), "2 9 9");
}

// A replica that has been open for longer than the daemon's look at what is unused.
TEST_F(Replicas, GoAlsoWhenTheyWereOpenForLong) {
  make();
  EXPECT_EQ(reader.is_ok("get h"), "1 7 7");
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  reader.is_ok("close h");
  EXPECT_TRUE(becomes([&] { return arrays() == 1; }));
}

TEST_F(Replicas, AreNotWithdrawnUnderAWrite) {
  make();
  EXPECT_EQ(reader.is_ok("get h"), "1 7 7");
  reader.is_ok("write h -");
  EXPECT_EQ(error(writer, "withdraw a@host"), "Busy");
  reader.is_ok("drop h");
  EXPECT_EQ(reader.is_ok("put h 9"), "3");
  EXPECT_EQ(writer.is_ok("get a"), "3 9 9");
  writer.is_ok("withdraw a@host");
  EXPECT_EQ(error(reader, "get h"), "Withdrawn");
  EXPECT_EQ(reader.is_ok("on a host h"), "host");
  EXPECT_EQ(reader.is_ok("get h"), "3 9 9");
}

// Nobody would end that wait.
TEST_F(Replicas, WhoHoldsTheSlotsHimselfIsTold) {
  writer.is_ok("create b 2 1000 cuda:0");
  writer.is_ok("put b 1");
  reader.is_ok("on b host h");
  reader.is_ok("read h -");
  reader.is_ok("keep h first");
  writer.is_ok("put b 2");
  reader.is_ok("read h -");
  reader.is_ok("keep h second");
  writer.is_ok("put b 3");
  EXPECT_EQ(error(reader, "read h -"), "TooManyHeld");
  reader.is_ok("release first");
  EXPECT_EQ(reader.is_ok("get h"), "3 3 3");
}

// Who holds the slots there may be about to write at home. The control: by who keeps the number.
TEST_F(Replicas, WhoWaitsForASlotThereKeepsNobodyElsewhere) {
  writer.is_ok("create a 2 1000 cuda:0");
  publish(writer, 1);
  reader.is_ok("on a host h");
  reader.is_ok("read h -");
  EXPECT_EQ(reader.is_ok("put h 2"), "2");
  Client third(daemon);
  third.is_ok("on a host h");
  third.say("put h 3");
  EXPECT_EQ(third.answer(50).kind, Answer::Kind::kSilent);
  EXPECT_EQ(writer.is_ok("get a"), "2 2 2");
  publish(writer, 4);
  EXPECT_EQ(reader.is_ok("put a 5"), "4") << "no number has been used up";
  Client fourth(daemon);  // who waits for the one who waits
  fourth.is_ok("on a host h");
  fourth.say("put h 6");
  EXPECT_EQ(fourth.answer(50).kind, Answer::Kind::kSilent);
  EXPECT_EQ(reader.is_ok("put a 5"), "5");
  reader.is_ok("release h");
  EXPECT_EQ(std::set({third.answer().text, fourth.answer().text}),
            std::set<std::string>({"6", "7"}));
  writer.is_ok("get a");

  reader.is_ok("read h -");
  EXPECT_EQ(reader.is_ok("put h 7"), "8");
  third.is_ok("leave_out wait for a slot without a number");
  third.say("put h 8");
  EXPECT_EQ(third.answer(50).kind, Answer::Kind::kSilent);
  EXPECT_EQ(error(writer, "write a s 50"), "Timeout");
  reader.is_ok("release h");
  EXPECT_EQ(third.answer().text, "9");
}

TEST_F(Replicas, AreWithdrawnWithTheirArray) {
  make();
  EXPECT_EQ(reader.is_ok("get h"), "1 7 7");
  writer.is_ok("withdraw a");
  EXPECT_EQ(error(reader, "get h"), "Withdrawn");
  EXPECT_EQ(error(writer, "get a"), "Withdrawn");
  for (const char* name : {"close h", "close a"}) reader.is_ok(name);
  writer.is_ok("close a");
  EXPECT_TRUE(becomes([&] { return arrays() == 0; }));
}

TEST_F(Replicas, AReplicasNameIsNobodysToCreate) {
  EXPECT_EQ(error(writer, "create a@host 3 10 host"), "InvalidArgument");
  make();
  EXPECT_EQ(error(reader, "on a cuda:9 x"), "Unsupported");
  EXPECT_EQ(error(reader, "open a@host"), "InvalidArgument") << "though it is open here";
  const auto listed = daemon.admin().list_arrays("a*");
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(listed->arrays_size(), 2) << "operators see it";
}

TEST_F(Replicas, AMemArrayMovesBetweenThem) {
  EXPECT_EQ(writer.is_ok("mem_array m s"), "0 device host");
}

TEST_F(Replicas, AnotherReaderCopiesWhatOneDiedOf) {
  make();
  die_copying(reader, "get h");
  Client next(daemon);
  next.is_ok("on a host h");
  EXPECT_EQ(next.is_ok("get h"), "2 7 7");
  EXPECT_EQ(next.is_ok("has_writer h"), "0") << "who has given it a number has only copied";
  EXPECT_EQ(writer.is_ok("get a"), "2 7 7");
  publish(writer, 8);
  EXPECT_EQ(next.is_ok("get h"), "3 8 8");
}

// The same at home, and without the step that says so.
TEST_F(Replicas, WhoCopiesWithANewNumberIsNoWriter) {
  make();
  EXPECT_EQ(reader.is_ok("put h 9"), "2");
  Client other(daemon);
  other.is_ok("open a");
  die_copying(other, "get a");
  EXPECT_EQ(writer.is_ok("get a"), "3 9 9");
  EXPECT_EQ(writer.is_ok("has_writer a"), "0");
}

TEST_F(Replicas, WhoDoesNotSayThatItCopiesIsTakenForAWriter) {
  make();
  die_copying(reader, "get h");
  Client next(daemon);
  next.is_ok("on a host h");
  next.is_ok("leave_out say that it only copies");
  EXPECT_EQ(next.is_ok("get h"), "2 7 7");
  EXPECT_EQ(next.is_ok("has_writer h"), "1");
}

// As on an array without replicas.
TEST_F(Replicas, ANumberThatWasDroppedIsGoneAtOnce) {
  make();
  EXPECT_EQ(reader.is_ok("get h"), "1 7 7");
  // Taken for a write there, and at home.
  reader.is_ok("write h -");
  writer.say("read_version a 2");
  EXPECT_EQ(writer.answer(50).kind, Answer::Kind::kSilent);
  reader.is_ok("drop h");
  EXPECT_EQ(writer.answer().code, "VersionGone");
  EXPECT_EQ(error(reader, "read_version h 2"), "VersionGone");
  writer.is_ok("write a s");
  reader.say("read_version h 3");
  EXPECT_EQ(reader.answer(50).kind, Answer::Kind::kSilent);
  writer.is_ok("drop a");
  EXPECT_EQ(reader.answer().code, "VersionGone");
  publish(writer, 8);
  EXPECT_EQ(reader.is_ok("read_version h 4"), "4");
  EXPECT_EQ(error(reader, "read_version h 3"), "VersionGone");
}

TEST_F(Replicas, AWritersDeathElsewhereLeavesTheNewestVersion) {
  make();
  EXPECT_EQ(reader.is_ok("put h 9"), "2");
  reader.is_ok("write h -");
  reader.kill();
  Client next(daemon);
  next.is_ok("on a host h");
  EXPECT_EQ(next.is_ok("get h"), "2 9 9");
  EXPECT_EQ(writer.is_ok("put a 3"), "4") << "number 3 was lost";
  EXPECT_EQ(next.is_ok("get h"), "4 3 3");
}

// Without this step whoever reads at home does not look at the replica.
TEST_F(Replicas, ThatAreWrittenWithoutAWordAreNotSeen) {
  make();
  EXPECT_EQ(writer.is_ok("get a"), "1 7 7");
  reader.is_ok("leave_out say that versions are elsewhere");
  EXPECT_EQ(reader.is_ok("put h 9"), "2");
  EXPECT_EQ(writer.is_ok("get a"), "1 7 7");
}

}  // namespace
}  // namespace memlease::testing
