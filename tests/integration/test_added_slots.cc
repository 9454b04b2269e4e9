// Readers that hold what they can, or stand still, do not stop a writer: the array gets slots while
// they do, and gives them back afterwards.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "memlease/v1/admin.pb.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kSlotBytes = 512 * 8;

class AddedSlots : public ::testing::Test {
 protected:
  explicit AddedSlots(const std::vector<std::string>& flags = {"--log-level=info"})
      : daemon_(flags) {
    for (Peer* peer : {&writer_, &a_, &b_, &c_}) must(peer->ask("connect"));
  }
  void create(const std::string& slots, std::uint64_t words = 512) {
    must(writer_.ask(fmt::format("create a {} 600 {} session", slots, words)));
    must(writer_.ask("put a 5000"));
    slot_bytes_ = words * 8;
  }
  static Answer must(const Answer& answer) {
    EXPECT_TRUE(answer.ok()) << answer.describe();
    return answer;
  }
  v1::ArrayInfo info() {
    const auto arrays = daemon_.admin().list_arrays("a");
    EXPECT_TRUE(arrays.ok() && arrays->arrays_size() == 1);
    return arrays.ok() && arrays->arrays_size() == 1 ? arrays->arrays(0) : v1::ArrayInfo();
  }
  // The daemon looks once a second.
  bool comes_back_to(std::uint32_t slots) {
    const auto end = Clock::now() + std::chrono::seconds(20);
    while (info().slots() != slots && Clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return info().slots() == slots && info().bytes() == slots * slot_bytes_;
  }
  // It keeps the current version, beside all that it has.
  static bool keeps_one_more(Peer& reader) {
    const Answer read = reader.ask("read a 0 1000");
    EXPECT_TRUE(read.ok() || read.code == "TooManyHeld") << read.describe();
    return read.ok();
  }
  void publish(std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t version = from; version <= to; ++version) {
      const Answer put = writer_.ask("put a 5000");
      ASSERT_TRUE(put.ok()) << put.describe();
      ASSERT_EQ(put.number(), version);
    }
  }

  // Segments of arrays that the process has mapped, for reading or for writing.
  static std::size_t segments_of(const Peer& peer) {
    std::ifstream maps(fmt::format("/proc/{}/maps", peer.pid()));
    std::set<std::string> inodes;
    for (std::string line; std::getline(maps, line);) {
      if (line.find("memlease-segment") == std::string::npos) continue;
      std::istringstream fields(line);
      std::string addresses, access, offset, device, inode;
      fields >> addresses >> access >> offset >> device >> inode;
      inodes.insert(inode);
    }
    return inodes.size();
  }

  // Returns when all of the daemon's threads stand still.
  void stop_daemon() {
    daemon_.signal(SIGSTOP);
    const auto stands_still = [](const std::filesystem::directory_entry& task) {
      std::ifstream file(task.path() / "stat");
      const std::string stat(std::istreambuf_iterator<char>(file), {});
      return stat.empty() || stat.at(stat.rfind(')') + 2) == 'T';
    };
    const std::string tasks = fmt::format("/proc/{}/task", daemon_.pid());
    while (!std::all_of(std::filesystem::directory_iterator(tasks), {}, stands_still)) {
      std::this_thread::yield();
    }
  }

  std::uint64_t slot_bytes_ = 0;
  PrivateDaemon daemon_;
  Peer writer_{daemon_.directory()};
  Peer a_{daemon_.directory()};
  Peer b_{daemon_.directory()};
  Peer c_{daemon_.directory()};
};

TEST_F(AddedSlots, GreedyReadersGetTheirShareAndTheWriterGoesOn) {
  create("3:64");
  const std::vector<Peer*> readers = {&a_, &b_, &c_};
  std::vector<std::uint64_t> kept(readers.size());
  // All have subscribed before anyone keeps anything.
  for (Peer* reader : readers) must(reader->ask("read a 0 1000"));
  for (Peer* reader : readers) must(reader->ask("release a"));
  for (std::uint64_t version = 2; version <= 1000; ++version) {
    publish(version, version);
    for (std::size_t i = 0; i < readers.size(); ++i) kept[i] += keeps_one_more(*readers[i]) ? 1 : 0;
  }
  EXPECT_THAT(kept, ::testing::Each((64U - 2) / (3 * 3)));
  EXPECT_EQ(info().slots(), 8U) << "they keep the same 6 versions: then the current one, the next";
  const Answer refused = a_.ask("read a 0 1000");
  EXPECT_EQ(refused.code, "TooManyHeld");
  EXPECT_THAT(refused.text, HasSubstr("holds as many versions of 'a' as it may, 6, by leases and "
                                      "views: 2, 3, 4,"));
  for (Peer* reader : readers) must(reader->ask("verify a"));
  for (Peer* reader : readers) must(reader->ask("release a"));
  publish(1001, 1001);  // the current version keeps its slot
  EXPECT_TRUE(comes_back_to(3)) << info().slots();
  EXPECT_THAT(daemon_.log(), HasSubstr("a slot was added"));
  EXPECT_THAT(daemon_.log(), HasSubstr("added slots were given back"));
  publish(1002, 1010);
  for (Peer* reader : readers) EXPECT_EQ(must(reader->ask("read a 1009 1000")).number(), 1010U);
}

// Who comes later lowers the share, but takes nothing back from those who have more.
TEST_F(AddedSlots, GreedyReadersThatComeOneAfterTheOtherDoNotStopTheWriter) {
  create("3:17");
  std::uint64_t version = 1;
  std::vector<std::uint64_t> kept;
  for (Peer* reader : {&a_, &b_, &c_}) {
    kept.push_back(0);
    for (; keeps_one_more(*reader); publish(version, version)) {
      ++kept.back();
      ++version;
    }
  }
  EXPECT_THAT(kept, ::testing::ElementsAre((17 - 2) / 3, (17 - 2) / 6, 2));
  publish(version + 1, version + 20);
  for (Peer* reader : {&a_, &b_, &c_}) must(reader->ask("verify a"));
}

TEST_F(AddedSlots, StoppedReadersDoNotStopTheWriter) {
  create("2:64");
  must(a_.ask("read a 0 1000"));
  publish(2, 2);
  must(b_.ask("read a 0 1000"));
  for (Peer* reader : {&a_, &b_}) {
    reader->signal(SIGSTOP);
    ASSERT_EQ(reader->wait_for_signal(), SIGSTOP);
  }
  publish(3, 1000);
  EXPECT_EQ(info().slots(), 4U);
  for (Peer* reader : {&a_, &b_}) {
    reader->signal(SIGCONT);
    EXPECT_EQ(must(reader->ask("verify a")).number(), 1U);
  }
  a_.kill();
  must(b_.ask("release a"));
  publish(1001, 1001);
  EXPECT_TRUE(comes_back_to(2)) << info().slots();
}

// What stands in an added slot moves with ownership, and survives the writer.
TEST_F(AddedSlots, AnotherWriterGoesOnWithThem) {
  create("2:64");
  must(a_.ask("read a 0 1000"));
  publish(2, 2);
  must(a_.ask("read a 0 1000"));
  const Answer third = must(writer_.ask("put a 5000"));
  EXPECT_EQ(third.number(1), 2U) << "in the added slot";
  EXPECT_EQ(must(b_.ask("update a 1000")).number(1), 3U) << "in another one, with the bytes of it";
  must(b_.ask("fill a"));
  must(b_.ask("publish a"));
  must(c_.ask("read a 0 1000"));
  b_.kill();
  EXPECT_EQ(must(writer_.ask("put a 1000")).number(), 5U);
  for (Peer* reader : {&a_, &c_}) must(reader->ask("verify a"));
  EXPECT_EQ(must(a_.ask("read a 0 1000")).number(), 5U);
  must(a_.ask("release a"));
  must(c_.ask("release a"));
  publish(6, 8);
  EXPECT_TRUE(comes_back_to(2)) << info().slots();
  publish(9, 12);
}

TEST_F(AddedSlots, TheirMemoryIsUnmappedOnceTheyHaveGone) {
  create("2:8", 1 << 20);
  must(a_.ask("read a 0 1000"));
  publish(2, 2);
  must(a_.ask("read a 0 1000"));
  publish(3, 3);
  must(b_.ask("read a 0 1000"));
  EXPECT_EQ(segments_of(writer_), 2U);
  EXPECT_EQ(segments_of(b_), 2U);
  EXPECT_EQ(segments_of(a_), 1U) << "it has nothing to do with it";
  must(a_.ask("release a"));
  must(b_.ask("release a"));
  publish(4, 4);
  ASSERT_TRUE(comes_back_to(2));
  publish(5, 5);
  must(b_.ask("read a 0 1000"));
  EXPECT_EQ(segments_of(writer_), 1U);
  EXPECT_EQ(segments_of(b_), 1U);
}

TEST_F(AddedSlots, ThereAreNoMoreThanMaxSlots) {
  create("2:4");
  for (std::uint64_t version = 2; version <= 4; ++version) {
    must(a_.ask("read a 0 1000"));
    publish(version, version);
  }
  const Answer refused = writer_.ask("write a 1000");
  EXPECT_EQ(refused.code, "NoFreeSlot");
  EXPECT_THAT(refused.text, HasSubstr("(4 slots, waited 1 s)"));
  EXPECT_THAT(refused.text, HasSubstr(fmt::format("pid {}", a_.pid())));
  EXPECT_THAT(refused.text, HasSubstr("it got no further slot: 'a' has 4 slots already"));
  EXPECT_EQ(a_.ask("read a 0 1000").code, "TooManyHeld");
}

TEST_F(AddedSlots, ADaemonThatStandsStillKeepsNoWriterBeyondItsDeadline) {
  create("2:64");
  must(a_.ask("read a 0 1000"));
  publish(2, 2);
  must(a_.ask("read a 0 1000"));
  stop_daemon();
  const auto start = Clock::now();
  for (const char* wait_ms : {"0", "300"}) {
    const Answer refused = writer_.ask(fmt::format("write a {}", wait_ms));
    EXPECT_EQ(refused.code, "NoFreeSlot") << refused.describe();
    EXPECT_THAT(refused.text, HasSubstr("it got no further slot: "));
  }
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(5)) << "a call waits for 30 s";
  daemon_.signal(SIGCONT);
  publish(3, 10);
}

class AddedSlotsWithinAQuota : public AddedSlots {
 protected:
  AddedSlotsWithinAQuota() : AddedSlots({fmt::format("--quota-bytes={}", 3 * kSlotBytes)}) {}
};
TEST_F(AddedSlotsWithinAQuota, AreCharged) {
  create("2:64");
  must(a_.ask("read a 0 1000"));
  publish(2, 2);
  must(a_.ask("read a 0 1000"));
  publish(3, 3);
  const Answer refused = writer_.ask("write a 1000");
  EXPECT_EQ(refused.code, "NoFreeSlot");
  EXPECT_THAT(refused.text, HasSubstr("it got no further slot: uid"));
  EXPECT_THAT(refused.text, HasSubstr("bytes on host"));
  must(a_.ask("release a"));
  publish(4, 5);
  EXPECT_TRUE(comes_back_to(2));
  must(c_.ask("create b 1 600 512 session"));
}

}  // namespace
}  // namespace memlease::testing
