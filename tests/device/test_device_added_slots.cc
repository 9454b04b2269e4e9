// Readers that keep versions, or stand still, do not stop a writer of an array on a GPU: the array
// gets slots while they do, whose work streams order as they order all other, and gives them back
// when that work is over.
#include <signal.h>

#include <array>
#include <chrono>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "memlease/v1/admin.pb.h"
#include "tests/device/fixture.h"
#include "tests/support/eventually.h"

namespace memlease::testing {
namespace {

using ::testing::HasSubstr;

class DeviceAddedSlots : public DeviceTest {
 protected:
  explicit DeviceAddedSlots(const std::vector<std::string>& flags = {"--log-level=info"})
      : DeviceTest(flags) {}

  v1::ArrayInfo info(const std::string& name = "a") {
    const auto arrays = daemon.admin().list_arrays(name);
    EXPECT_TRUE(arrays.ok() && arrays->arrays_size() == 1);
    return arrays.ok() && arrays->arrays_size() == 1 ? arrays->arrays(0) : v1::ArrayInfo();
  }
  // The daemon looks once a second.
  bool comes_back_to(std::uint32_t slots, const std::string& name = "a") {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (info(name).slots() != slots && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return info(name).slots() == slots;
  }
  static void publish_to(Client& writer, const std::string& name, int value) {
    writer.is_ok(fmt::format("write {} s", name));
    writer.is_ok(fmt::format("fill {} {} s", name, value));
    writer.is_ok("publish " + name);
  }
  // Reads the current version by a kernel, and keeps the lease by this name. "" or the error.
  static std::string keep(Client& reader, int expected, const std::string& as,
                          const std::string& name = "a") {
    const Answer read = reader.ask(fmt::format("read {} r", name));
    if (!read.ok()) return read.code;
    reader.is_ok(fmt::format("look {} {} r", name, expected));
    reader.is_ok(fmt::format("keep {} {}", name, as));
    return "";
  }
  // That the bytes are still what they were, by one more kernel; and lets go.
  static void look_and_release(Client& reader, int expected, const std::string& as) {
    reader.is_ok(fmt::format("look {} {} r", as, expected));
    reader.is_ok("release " + as);
  }
  // A writer prefers the added slot to one where reads go on, and what it publishes there stays.
  static void let_reads_end(std::initializer_list<Client*> readers) {
    for (Client* reader : readers) reader->is_ok("synchronize r");
  }
  // Version 1 and 2 are held, by `a` and by `b`, and 3 is current, in an added slot.
  static void grow(Client& writer, Client& a, Client& b, const std::string& name = "a") {
    publish_to(writer, name, 1);
    EXPECT_EQ(keep(a, 1, name + "1", name), "");
    publish_to(writer, name, 2);
    EXPECT_EQ(keep(b, 2, name + "2", name), "");
    publish_to(writer, name, 3);
  }
};

TEST_F(DeviceAddedSlots, GreedyReadersGetTheirShareAndTheWriterGoesOn) {
  Client writer(daemon);
  std::array<Client, 3> readers = {Client(daemon), Client(daemon), Client(daemon)};
  writer.is_ok("create a 3:29 1000 cuda:0");
  publish(writer, 1);
  for (Client& reader : readers) read(reader, 1);  // all have subscribed
  std::vector<int> kept;
  for (int version = 2; version <= 60; ++version) {
    publish(writer, version);
    bool all = true;
    for (Client& reader : readers) {
      const std::string refused = keep(reader, version, fmt::format("k{}", version));
      EXPECT_TRUE(refused.empty() || refused == "TooManyHeld") << refused;
      all = all && refused.empty();
    }
    if (all) kept.push_back(version);
  }
  EXPECT_THAT(kept, ::testing::ElementsAre(2, 3, 4)) << "(max_slots - 2) / (3 x 3 processes)";
  EXPECT_EQ(info().slots(), 5U) << "these, the current one, the next";
  EXPECT_EQ(info().bytes(), 5U * 8000);
  for (Client& reader : readers) {
    for (const int version : kept) look_and_release(reader, version, fmt::format("k{}", version));
    EXPECT_EQ(reader.is_ok("mismatches r"), "0");
  }
  publish(writer, 61);  // the current version keeps its slot
  EXPECT_TRUE(comes_back_to(3)) << info().slots();
  EXPECT_EQ(info().bytes(), 3U * 8000);
  EXPECT_THAT(daemon.log(), HasSubstr("a slot was added"));
  EXPECT_TRUE(eventually([&] {  // it is told a moment later
    return daemon.log().find("added slots were given back") != std::string::npos;
  }));
  publish(writer, 62);
  for (Client& reader : readers) EXPECT_EQ(reader.is_ok("get a"), "62 62 62");
}

TEST_F(DeviceAddedSlots, StoppedReadersDoNotStopTheWriter) {
  Client writer(daemon);
  Client a(daemon);
  Client b(daemon);
  writer.is_ok("create a 2:64 1000 cuda:0");
  grow(writer, a, b);
  for (Client* reader : {&a, &b}) {
    reader->signal(SIGSTOP);
    ASSERT_EQ(reader->wait_for_signal(), SIGSTOP);
  }
  for (int version = 4; version <= 60; ++version) publish(writer, version);
  EXPECT_EQ(info().slots(), 4U);
  for (Client* reader : {&a, &b}) reader->signal(SIGCONT);
  look_and_release(a, 1, "a1");
  look_and_release(b, 2, "a2");
  EXPECT_EQ(a.is_ok("mismatches r"), "0");
  EXPECT_EQ(b.is_ok("mismatches r"), "0");
  publish(writer, 61);
  EXPECT_TRUE(comes_back_to(2)) << info().slots();
}

// What stands in an added slot moves with ownership, is copied from there, and survives the writer.
TEST_F(DeviceAddedSlots, AnotherWriterGoesOnWithThem) {
  Client writer(daemon);
  Client a(daemon);
  Client b(daemon);
  writer.is_ok("create a 2:64 1000 cuda:0");
  grow(writer, a, b);
  {
    Client other(daemon);
    EXPECT_EQ(other.is_ok("update a s"), "4 3") << "with the bytes of slot 2, which it has not met";
    other.is_ok("add a 10 s");
    other.is_ok("publish a");
    other.is_ok("synchronize s");
    other.kill();
  }
  Client late(daemon);
  EXPECT_EQ(late.is_ok("get a"), "4 13 13");
  publish(writer, 5);
  read(late, 5);
  look_and_release(a, 1, "a1");
  look_and_release(b, 2, "a2");
  let_reads_end({&a, &b, &late});
  for (int version = 6; version <= 8; ++version) publish(writer, version);
  EXPECT_TRUE(comes_back_to(2)) << info().slots();
  for (Client* reader : {&a, &b, &late}) EXPECT_EQ(reader->is_ok("mismatches r"), "0");
}

// The looks at both arrays are one: that at the second one shows that there was one at the first.
TEST_F(DeviceAddedSlots, ASlotStaysUntilTheReadsThatWereLetGoAreOver) {
  Client writer(daemon);
  Client a(daemon);
  Client b(daemon);
  Client slow(daemon);
  Client quick(daemon);
  for (const std::string name : {"a", "b"}) {
    writer.is_ok("create " + name + " 2:64 1000 cuda:0");
    grow(writer, a, b, name);
    Client& reader = name == "a" ? slow : quick;
    if (name == "a") slow.is_ok("gate r");
    EXPECT_EQ(keep(reader, 3, "last", name), "");
    reader.is_ok("release last");
    a.is_ok("release " + name + "1");
    b.is_ok("release " + name + "2");
    let_reads_end({&a, &b, &quick});
    for (int version = 4; version <= 5; ++version) publish_to(writer, name, version);
  }
  ASSERT_TRUE(comes_back_to(2, "b"));
  EXPECT_EQ(info("a").slots(), 3U) << "a kernel is yet to read it";
  slow.is_ok("ungate");
  EXPECT_TRUE(comes_back_to(2, "a"));
  // Whoever gets these bytes next comes behind that kernel.
  writer.is_ok("create c 2 1000 cuda:0");
  for (int version = 1; version <= 2; ++version) publish_to(writer, "c", version);
  EXPECT_EQ(slow.is_ok("mismatches r"), "0");
}

TEST_F(DeviceAddedSlots, ASlotStaysUntilWhatIsCopiedFromItIs) {
  Client a(daemon);
  Client b(daemon);
  Client slow(daemon);
  Client quick(daemon);
  for (const std::string name : {"a", "b"}) {
    Client& writer = name == "a" ? slow : quick;
    writer.is_ok("create " + name + " 2:64 1000 cuda:0");
    grow(writer, a, b, name);
    a.is_ok("release " + name + "1");
    b.is_ok("release " + name + "2");
    writer.is_ok("synchronize s");
    if (name == "a") slow.is_ok("gate s");
    writer.is_ok("update " + name + " s");
    writer.is_ok("add " + name + " 10 s");
    writer.is_ok("publish " + name);
  }
  quick.is_ok("synchronize s");
  ASSERT_TRUE(comes_back_to(2, "b"));
  EXPECT_EQ(info("a").slots(), 3U) << "its bytes are yet to be copied";
  slow.is_ok("ungate");
  EXPECT_TRUE(comes_back_to(2, "a"));
  EXPECT_EQ(a.is_ok("get a"), "4 13 13");
}

// Poisoned there as anywhere, and the slot is written again.
TEST_F(DeviceAddedSlots, AVersionInOneDiesWithItsWriter) {
  Client keeper(daemon);
  Client a(daemon);
  Client b(daemon);
  Client writer(daemon);
  keeper.is_ok("create a 2:64 1000 cuda:0");
  publish(writer, 1);
  EXPECT_EQ(keep(a, 1, "k"), "");
  publish(writer, 2);
  EXPECT_EQ(keep(b, 2, "k"), "");
  writer.is_ok("synchronize s");
  publish_unfinished(writer, 3);
  EXPECT_EQ(info().slots(), 3U);
  writer.kill();
  EXPECT_TRUE(becomes([&] { return keeper.is_ok("version a") == "2"; }));
  EXPECT_EQ(keeper.is_ok("write a s"), "4 2");
  keeper.is_ok("fill a 4 s");
  keeper.is_ok("publish a");
  read(b, 4);
  look_and_release(a, 1, "k");
  look_and_release(b, 2, "k");
  for (Client* reader : {&a, &b}) EXPECT_EQ(reader->is_ok("mismatches r"), "0");
  publish(keeper, 5);
  EXPECT_TRUE(comes_back_to(2)) << info().slots();
}

TEST_F(DeviceAddedSlots, AWithdrawnArrayLeavesNothing) {
  Client writer(daemon);
  Client a(daemon);
  Client b(daemon);
  writer.is_ok("create a 2:64 1000 cuda:0");
  grow(writer, a, b);
  writer.is_ok("withdraw a");
  look_and_release(a, 1, "a1");
  look_and_release(b, 2, "a2");
  for (Client* client : {&writer, &a, &b}) client->is_ok("close a");
  const auto status = daemon.admin().status();
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->gpus(0).array_bytes(), 0U);
}

// With the daemon standing still every call would be missed.
TEST_F(DeviceAddedSlots, SteadyStateMakesNoCall) {
  Client writer(daemon);
  Client a(daemon);
  Client b(daemon);
  Client reader(daemon);
  writer.is_ok("create a 2:64 1000 cuda:0");
  grow(writer, a, b);
  const auto rounds = [&](int first) {
    for (int version = first; version < first + 10; ++version) {
      publish(writer, version);
      read(reader, version);
    }
  };
  rounds(4);
  const std::string writers = writer.is_ok("calls");
  const std::string readers = reader.is_ok("calls");
  daemon.signal(SIGSTOP);
  rounds(14);
  daemon.signal(SIGCONT);
  EXPECT_EQ(writer.is_ok("calls"), writers);
  EXPECT_EQ(reader.is_ok("calls"), readers);
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
}

// Of three slots of 8,000 bytes as they are placed, each at a multiple of 512.
class DeviceAddedSlotsWithinAQuota : public DeviceAddedSlots {
 protected:
  DeviceAddedSlotsWithinAQuota() : DeviceAddedSlots({"--gpu-quota-bytes=24576"}) {}
};
TEST_F(DeviceAddedSlotsWithinAQuota, AreCharged) {
  Client writer(daemon);
  Client a(daemon);
  Client b(daemon);
  Client c(daemon);
  writer.is_ok("create a 2:64 1000 cuda:0");
  grow(writer, a, b);
  EXPECT_EQ(keep(c, 3, "k"), "");
  const Answer refused = writer.ask("write a s 100");
  EXPECT_EQ(refused.code, "NoFreeSlot");
  EXPECT_THAT(refused.text, HasSubstr("it got no further slot: uid"));
  look_and_release(a, 1, "a1");
  look_and_release(b, 2, "a2");
  look_and_release(c, 3, "k");
  publish(writer, 4);
  EXPECT_TRUE(comes_back_to(2));
  writer.is_ok("create b 1 1000 cuda:0");
}

class DeviceAddedSlotsOfTheirOwn : public DeviceAddedSlots {
 protected:
  DeviceAddedSlotsOfTheirOwn() : DeviceAddedSlots({"--warm-bytes=0"}) {}
  void SetUp() override { FAKECUDA_STAND_IN_ONLY(); }  // which counts bytes
  std::uint64_t used_bytes() {
    const fakecuda::Turn turn(*world.operator->());
    return world->used_bytes(0, true);
  }
};
// A slot that did not fit beside the others: what was opened for it is closed, and goes back.
TEST_F(DeviceAddedSlotsOfTheirOwn, TheirMemoryGoesBackToTheGpu) {
  Client writer(daemon);
  Client a(daemon);
  Client b(daemon);
  Client c(daemon);
  writer.is_ok("create a 2:64 3000000 cuda:0");
  const std::uint64_t before = used_bytes();
  grow(writer, a, b);
  EXPECT_GT(used_bytes(), before);
  read(c, 3);
  a.is_ok("release a1");
  b.is_ok("release a2");
  publish(writer, 4);
  ASSERT_TRUE(comes_back_to(2)) << info().slots();
  publish(writer, 5);
  read(c, 5);
  EXPECT_TRUE(becomes([&] { return used_bytes() == before; })) << used_bytes() - before;
  EXPECT_EQ(c.is_ok("mismatches r"), "0");
}

}  // namespace
}  // namespace memlease::testing
