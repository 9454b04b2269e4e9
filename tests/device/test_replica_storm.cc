// Processes that write and read one array on two devices at once, and die in the middle of it: what
// is read is what was written last, wherever that was.
#include <csignal>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/device/fixture.h"

namespace memlease::testing {
namespace {

class ReplicaStorm : public DeviceTest {
 protected:
  static constexpr std::size_t kPeers = 3;

  ReplicaStorm() {
    owner.is_ok("create a 4 100 cuda:0");
    note_put(owner.is_ok("put a 1"), 1);
    for (std::size_t i = 0; i < kPeers; ++i) start(i);
  }

  void start(std::size_t i) {
    peers.resize(kPeers);
    peers[i] = std::make_unique<Client>(daemon);
    peers[i]->is_ok("on a host h");
  }
  std::uint64_t random(std::uint64_t below) { return generator() % below; }

  void note_put(const std::string& version, std::uint64_t value) {
    EXPECT_TRUE(puts.emplace(std::stoull(version), value).second) << version << " was given twice";
  }
  // "VERSION FIRST LAST". A copy may have a number of its own, above its content's first one.
  void check_get(const std::string& text, std::uint64_t least) {
    std::istringstream words(text);
    std::uint64_t version = 0, first = 0, last = 0;
    words >> version >> first >> last;
    EXPECT_GE(version, least) << "older than what had been published";
    EXPECT_EQ(first, last) << "torn";
    const auto next = puts.upper_bound(version);
    ASSERT_NE(next, puts.begin());
    EXPECT_TRUE(std::prev(next)->second == first || in_doubt.contains(first))
        << "version " << version << " has " << first << ", and " << std::prev(next)->second
        << " was written";
    newest_read = std::max(newest_read, version);
  }

  Client owner{daemon};
  std::vector<std::unique_ptr<Client>> peers;
  std::map<std::uint64_t, std::uint64_t> puts;  // by version
  std::set<std::uint64_t> in_doubt;             // whose writers died before they said a version
  std::uint64_t newest_read = 0;
  std::uint64_t last_value = 1;
  std::mt19937_64 generator{20261124};
};

TEST_F(ReplicaStorm, OneAfterTheOtherReadsWhatWasWrittenLast) {
  for (int turn = 0; turn < 60; ++turn) {
    Client& peer = *peers[random(kPeers)];
    const std::string name = random(2) == 0 ? "a" : "h";
    if (random(2) == 0) {
      const std::string command = "put " + name + " " + std::to_string(++last_value);
      note_put(peer.is_ok(command), last_value);
    } else {
      check_get(peer.is_ok("get " + name), puts.rbegin()->first);
    }
  }
}

TEST_F(ReplicaStorm, AllAtOnceReadNothingThatWasNotWritten) {
  for (int turn = 0; turn < 25; ++turn) {
    const std::uint64_t least = puts.rbegin()->first;
    std::vector<std::uint64_t> values(kPeers);  // 0: a read
    for (std::size_t i = 0; i < kPeers; ++i) {
      const std::string name = random(2) == 0 ? "a" : "h";
      if (random(2) == 0) values[i] = ++last_value;
      peers[i]->say(values[i] == 0 ? "get " + name
                                   : "put " + name + " " + std::to_string(values[i]));
    }
    std::vector<std::string> gets;
    for (std::size_t i = 0; i < kPeers; ++i) {
      const Answer answer = peers[i]->answer();
      ASSERT_TRUE(answer.ok()) << answer.describe();
      if (values[i] == 0) {
        gets.push_back(answer.text);
      } else {
        note_put(answer.text, values[i]);
      }
    }
    for (const std::string& get : gets) check_get(get, least);
  }
}

TEST_F(ReplicaStorm, DeathsInTheMiddleLeaveTheNewestVersion) {
  const std::vector<std::string> steps = {
      "device.replica_begun", "device.replica_copied", "device.number_flagged",
      "device.number_taken",  "write.numbered",        "write.handed_out",
      "publish.slot",         "publish.begin",         "publish.publication",
      "end_write.counted",    "ownership.copied"};
  for (int turn = 0; turn < 30; ++turn) {
    const auto i = static_cast<std::size_t>(random(kPeers));
    Client& peer = *peers[i];
    const std::string& step = steps[random(steps.size())];
    const std::string name = random(3) == 0 ? "a" : "h";
    const std::uint64_t value = random(2) == 0 ? ++last_value : 0;
    const std::uint64_t least = std::max(puts.rbegin()->first, newest_read);
    peer.is_ok("arm " + step + " 1 9");
    peer.say(value == 0 ? "get " + name : "put " + name + " " + std::to_string(value));
    const Answer answer = peer.answer();
    if (answer.kind == Answer::Kind::kOk) {  // that step was not on its way
      if (value == 0) {
        check_get(answer.text, least);
      } else {
        note_put(answer.text, value);
      }
      // What a GPU has not completed goes with its process: so it is read first.
      check_get(owner.is_ok("get a"), puts.rbegin()->first);
      peer.kill();
    } else {
      ASSERT_EQ(peer.wait_for_signal(), SIGKILL) << step << ": " << answer.describe();
      if (value != 0) in_doubt.insert(value);
    }
    start(i);
    // Whoever comes next sees it, and once a value that was in doubt is read it counts.
    for (const char* where : {"get h", "get a"}) {
      const std::string text = peers[random(kPeers)]->is_ok(where);
      check_get(text, std::max(puts.rbegin()->first, newest_read));
      std::istringstream words(text);
      std::uint64_t version = 0, seen = 0;
      words >> version >> seen;
      if (in_doubt.erase(seen) != 0) puts.emplace(version, seen);
    }
    in_doubt.clear();  // what has not been seen by now is lost
  }
}

}  // namespace
}  // namespace memlease::testing
