// Processes that die at each labelled step of a lease of a GPU array, with and without work under
// way on the GPU: the others go on, in order, and take no torn bytes.
#include <filesystem>
#include <set>

#include "tests/device/fixture.h"
#include "tests/integration/crash_step.h"

namespace memlease::testing {
namespace {

struct Death {
  const char* step;
  std::vector<std::string> before;  // what the victim does first, after opening the array
  std::string last;                 // what it dies in
};

const std::vector<std::string> kWriting = {"write a s", "fill a 9 s"};
const std::vector<std::string> kReading = {"read a s", "look a 1 s"};

std::vector<Death> deaths() {
  std::vector<Death> deaths;
  const auto add = [&](std::initializer_list<const char*> steps,
                       const std::vector<std::string>& before, const std::string& last) {
    for (const char* step : steps) deaths.push_back({step, before, last});
  };
  add({"subscribe.begin", "subscribe.answered", "subscribe.done", "acquire.located", "acquire.held",
       "acquire.checked", "device.read_ordered"},
      {}, "read a s");
  add({"device.read_recorded", "device.read_counted", "release.begin", "release.cleared",
       "release.given_up"},
      kReading, "release a");
  add({"ownership.asked", "ownership.offered", "ownership.copied", "ownership.confirmed",
       "adopt.slot", "write.flagged", "write.allowed", "write.marked", "write.chosen",
       "write.numbered", "write.handed_out", "device.write_ordered"},
      {}, "write a s");
  add({"device.write_ordered", "device.copied"}, {}, "update a s");
  add({"device.copied"}, {}, "put a 9");
  add({"device.copied"}, {}, "get a");
  add({"device.write_recorded", "publish.begin", "publish.slot", "publish.publication",
       "end_write.unflagged", "end_write.counted"},
      kWriting, "publish a");
  add({"device.write_recorded", "drop.begin", "drop.slot"}, kWriting, "drop a s");
  add({"device.replica_begun", "device.replica_copied", "device.replica_published"},
      {"on a host h"}, "get h");
  add({"device.number_flagged", "device.number_taken"}, {"on a host h"}, "put h 9");
  add({"leave.begin", "leave.answered"}, {"read a r", "release a", "synchronize r"}, "close a");
  return deaths;
}

// Names of tests have no dots.
std::string name_of(const Death& death) {
  std::string name = death.last.substr(0, death.last.find(' ')) + "_" + death.step;
  for (char& c : name) c = c == '.' ? '_' : c;
  return name;
}

class DeviceCrashSteps : public DeviceTest,
                         public ::testing::WithParamInterface<std::tuple<Death, bool>> {};

TEST_P(DeviceCrashSteps, TheOthersGoOn) {
  const auto& [death, busy] = GetParam();
  Client keeper(daemon);
  Client reader(daemon);
  keeper.is_ok("create a 3 1000 cuda:0");
  publish(keeper, 1);
  keeper.is_ok("synchronize s");
  EXPECT_EQ(reader.is_ok("get a"), "1 1 1");
  {
    Client victim(daemon);
    victim.is_ok("open a");
    if (busy) victim.is_ok("gate s");
    for (const std::string& command : death.before) victim.is_ok(command);
    victim.is_ok(std::string("arm ") + death.step + " 1 9");
    EXPECT_EQ(victim.ask(death.last).kind, Answer::Kind::kDead);
    victim.kill();
  }
  // The keeper's writes go through all slots.
  for (int value = 3; value <= 7; ++value) {
    publish(keeper, value);
    read(reader, value);
  }
  EXPECT_EQ(reader.is_ok("mismatches r"), "0");
  keeper.is_ok("synchronize s");
  // Whoever waited for a record that its process took along was let go on: the checker tells.
  for (const fakecuda::Finding& finding : world.findings()) {
    EXPECT_EQ(finding.what, fakecuda::Finding::What::kOrphanWait) << fakecuda::describe(finding);
  }
}

INSTANTIATE_TEST_SUITE_P(All, DeviceCrashSteps,
                         ::testing::Combine(::testing::ValuesIn(deaths()), ::testing::Bool()),
                         [](const auto& tested) {
                           return name_of(std::get<0>(tested.param)) +
                                  (std::get<1>(tested.param) ? "_busy" : "_idle");
                         });

TEST(DeviceCrashStepList, HasEachStepOfDevicesAlone) {
  if (!std::filesystem::exists(MEMLEASE_SOURCE_DIR)) GTEST_SKIP() << "only in the source tree";
  std::set<std::string> tested;
  for (const Death& death : deaths()) tested.insert(death.step);
  for (const std::string& step : steps_in_sources(true)) EXPECT_TRUE(tested.contains(step)) << step;
}

}  // namespace
}  // namespace memlease::testing
