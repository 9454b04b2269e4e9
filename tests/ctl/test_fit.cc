#include "client/ctl/fit.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace memlease::ctl {
namespace {

using ::testing::ElementsAre;

Table ranked() {
  return {"",
          {{"name", "ARRAY"},
           {"rate", "RATE"},
           {"hidden", ""},
           {"bytes", "BYTES"},
           {"command", "COMMAND"}},
          {{std::string("sim/rank0/density"), Rate{60}, Cell(), Bytes{1024},
            std::string("solver --steps 100")},
           {std::string("u"), Rate{0}, Cell(), Bytes{7}, std::string("plot")}}};
}

const std::vector<int> kRanks = {0, 1, 0, 3, 2};
constexpr Style kScreen{.human = true, .color = false, .now_ms = 0};

std::vector<std::string> in(std::size_t width) { return fit(ranked(), kRanks, kScreen, width); }

TEST(Fit, WithRoomForAllIsTheTable) {
  EXPECT_THAT(in(80), ElementsAre("ARRAY                RATE    BYTES  COMMAND",
                                  "sim/rank0/density  60.0/s  1.0 KiB  solver --steps 100",
                                  "u                     0/s      7 B  plot"));
}

TEST(Fit, CropsTheLastColumnThenTheFirst) {
  EXPECT_THAT(in(49), ElementsAre("ARRAY                RATE    BYTES  COMMAND",
                                  "sim/rank0/density  60.0/s  1.0 KiB  solver --ste~",
                                  "u                     0/s      7 B  plot"));
  EXPECT_THAT(in(46), ElementsAre("ARRAY              RATE    BYTES  COMMAND",
                                  "~/rank0/density  60.0/s  1.0 KiB  solver --st~",
                                  "u                   0/s      7 B  plot"));
}

TEST(Fit, LeavesOutWhatMattersLeast) {
  EXPECT_THAT(in(36),
              ElementsAre("ARRAY           RATE  COMMAND", "~nk0/density  60.0/s  solver --st~",
                          "u                0/s  plot"));
}

TEST(Fit, HasNamesAndRatesOnTwentyColumns) {
  EXPECT_THAT(in(20),
              ElementsAre("ARRAY         RATE", "~0/density  60.0/s", "u              0/s"));
}

TEST(Fit, IsNeverWiderThanTheTerminal) {
  for (std::size_t width = 0; width < 70; ++width) {
    const auto lines = in(width);
    EXPECT_EQ(lines.size(), 3U);
    for (const std::string& line : lines) EXPECT_LE(width_of(line), width) << line;
  }
}

TEST(Fit, OfNothingIsTitles) {
  Table table = ranked();
  table.rows.clear();
  EXPECT_THAT(fit(table, kRanks, kScreen, 80), ElementsAre("ARRAY  RATE  BYTES  COMMAND"));
}

TEST(Cropped, KeepsWholeCharacters) {
  EXPECT_EQ(cropped("abc", 3), "abc");
  EXPECT_EQ(cropped("abcd", 3), "ab~");
  EXPECT_EQ(cropped("\xC3\xA4\xC3\xA4\xC3\xA4", 2), "\xC3\xA4~");
  EXPECT_EQ(cropped_front("abcd", 4), "abcd");
  EXPECT_EQ(cropped_front("abcd", 3), "~cd");
  EXPECT_EQ(cropped_front("\xC3\xA4\xC3\xA4\xC3\xA4", 2), "~\xC3\xA4");
  EXPECT_EQ(cropped_front("abc", 1), "~");
  EXPECT_EQ(cropped_front("abc", 0), "");
  EXPECT_EQ(cropped("abc", 1), "~");
  EXPECT_EQ(cropped("abc", 0), "");
}

}  // namespace
}  // namespace memlease::ctl
