// The simulation holds for some hundreds of seeds, is the same each time, and finds what is wrong
// on purpose: ./dev prove simulation takes as many seeds as there is time for.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/simulation/simulation.h"
#include "tests/support/crash_point.h"

namespace memlease::simulation {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kSeeds = 300;

TEST(Simulation, HoldsWhateverHappens) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const auto failure = run(seed);
    if (failure) FAIL() << report_of(seed, *failure);
  }
}

// What the state comes to after each step, as numbers.
std::vector<std::uint64_t> digests_of(std::uint64_t seed) {
  std::vector<std::uint64_t> digests;
  const auto failure =
      run(setup_of(seed), commands_of(seed), Lie::kNone,
          [&](const Command&, std::uint64_t digest) { digests.push_back(digest); });
  EXPECT_FALSE(failure) << failure->what;
  return digests;
}

// Addresses differ from run to run, and with them the order in tables that are hashed.
TEST(Simulation, ASeedIsTheSameRunEachTime) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const auto first = digests_of(seed);
    const std::vector<std::vector<int>> other_addresses(seed, std::vector<int>(97 * seed));
    ASSERT_EQ(digests_of(seed), first) << "seed " << seed;
  }
  EXPECT_NE(digests_of(1), digests_of(2));
}

// ---- What is wrong on purpose.

struct Found {
  std::uint64_t seed = 0;
  Failure failure;
};

std::optional<Found> find(Lie lie = Lie::kNone) {
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    if (const auto failure = run(seed, lie)) return Found{seed, *failure};
  }
  return std::nullopt;
}

class SimulationWithout : public ::testing::TestWithParam<std::string> {
 protected:
  void TearDown() override { testing::forget_steps(); }
};

TEST_P(SimulationWithout, IsFoundOut) {
  testing::leave_out(GetParam());
  EXPECT_TRUE(find()) << "nothing is lost without it: " << GetParam();
}

INSTANTIATE_TEST_SUITE_P(
    EachStep, SimulationWithout,
    ::testing::Values("look at the flag", "torn bytes have no version", "hand the numbers on",
                      "takeover", "cancel for who is gone", "let the owner go on",
                      "look at the offer's number", "count the generation", "set withdrawn",
                      "set draining", "list the subscriber", "note the entry",
                      "see what a session holds", "announce the hold", "look at the holds",
                      "use up the number", "hand the slot out", "flag the write",
                      "check the writer word", "adopt the highest number", "adopt the publication",
                      "name what an only slot has lost"),
    [](const auto& test) {
      std::string name = test.param;
      std::erase(name, '\'');
      std::ranges::replace(name, ' ', '_');
      return name;
    });

TEST(SimulationThatLies, IsFoundOut) {
  EXPECT_TRUE(find(Lie::kShortSegments)) << "memory is not there";
  EXPECT_TRUE(find(Lie::kKeepsGarbage)) << "what is given back is never closed";
  EXPECT_TRUE(find(Lie::kFalseGroup)) << "somebody reads what he may not";
}

// ---- What is shown of a failure.

TEST(SimulationThatFails, IsCutDownToTheStepsThatMatter) {
  const auto found = find(Lie::kShortSegments);
  ASSERT_TRUE(found);
  const auto setup = setup_of(found->seed);
  const auto few = shrink(setup, commands_of(found->seed), Lie::kShortSegments);
  const std::string report = report_of(found->seed, found->failure, Lie::kShortSegments);
  ASSERT_EQ(few.size(), 3U) << report;
  EXPECT_THAT(to_words(few[0]), HasSubstr("connect"));
  EXPECT_THAT(to_words(few[1]), HasSubstr("create"));
  EXPECT_THAT(to_words(few[2]), HasSubstr("memory comes")) << "for which the call did not wait";
  EXPECT_TRUE(run(setup, few, Lie::kShortSegments));
  EXPECT_THAT(report, HasSubstr("3 steps are enough"));
}

}  // namespace
}  // namespace memlease::simulation
