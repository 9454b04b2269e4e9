#include "client/ctl/table.h"
#include "gtest/gtest.h"
#include "wire/utf8.h"

namespace memlease::ctl {
namespace {

constexpr std::uint64_t kToday = 1'700'000'000'000;
constexpr Style kTerminal{.human = true, .color = false, .now_ms = kToday};
constexpr Style kPipe{};

Table example() {
  return {"arrays",
          {{"name", "NAME"},
           {"shape", ""},
           {"bytes", "BYTES"},
           {"", "NOTE"},
           {"since_unix_ms", "SINCE"}},
          {{std::string("u"), std::vector<std::int64_t>{2, 3}, Bytes{1536}, std::string("x"),
            Time{kToday - 90'000}},
           {std::string("density"), std::vector<std::int64_t>{}, Bytes{7}, Cell(), Time{}}}};
}

TEST(Table, ShowsRoundedValuesOnATerminal) {
  EXPECT_EQ(as_text(example(), kTerminal),
            "NAME       BYTES  NOTE  SINCE\n"
            "u        1.5 KiB  x     90 s ago\n"
            "density      7 B  -     -\n");
}

TEST(Table, ShowsExactValuesInAPipe) {
  EXPECT_EQ(as_text(example(), kPipe),
            "NAME     BYTES  NOTE  SINCE\n"
            "u         1536  x     2023-11-14T22:11:50Z\n"
            "density      7  -     -\n");
}

std::string as_json(const Table& table) {
  JsonList list(table.key, table.columns);
  const std::string rows = list.add(table.rows);
  return rows + list.end();
}

TEST(Table, JsonHasAllKeysAndNeverRounds) {
  EXPECT_EQ(
      as_json(example()),
      "{\"arrays\": ["
      "{\"name\": \"u\", \"shape\": [2,3], \"bytes\": 1536, \"since_unix_ms\": 1699999910000}, "
      "{\"name\": \"density\", \"shape\": [], \"bytes\": 7, \"since_unix_ms\": null}]}\n");
}

TEST(Table, WithoutRowsShowsItsTitles) {
  const Table empty{"arrays", {{"name", "NAME"}}, {}};
  EXPECT_EQ(as_text(empty, kTerminal), "NAME\n");
  EXPECT_EQ(as_json(empty), "{\"arrays\": []}\n");
}

TEST(Table, ColorsOnlyWhereAsked) {
  Style style = kTerminal;
  style.color = true;
  EXPECT_NE(as_text(example(), style).find("\x1b[1m"), std::string::npos);
  EXPECT_EQ(as_text(example(), kTerminal).find('\x1b'), std::string::npos);
}

TEST(Table, AlignsCharactersAndNotBytes) {
  const Table table{
      "x",
      {{"a", "A"}, {"b", "B"}},
      {{std::string("\xC3\xA4\xC3\xA4"), std::string("1")}, {std::string("bb"), std::string("2")}}};
  EXPECT_EQ(as_text(table, kPipe), "A   B\n\xC3\xA4\xC3\xA4  1\nbb  2\n");
}

TEST(Lines, GrowWithWhatComes) {
  Lines lines({{"a", "NAME"}, {"hidden", ""}, {"b", "BYTES"}}, kPipe);
  EXPECT_EQ(lines.add({{std::string("u"), Cell(), Bytes{5}}}), "NAME  BYTES\nu         5\n");
  EXPECT_EQ(lines.add({}), "");
  EXPECT_EQ(lines.add({{std::string("density"), Cell(), Bytes{7}}}), "density      7\n");
  EXPECT_EQ(lines.add({{std::string("u"), Cell(), Bytes{8}}}), "u            8\n");
}

TEST(Lines, ATitleStandsOverTheNumbersThatAreStillToCome) {
  Lines lines({{"a", "VERSION", true}, {"b", "AFTER", true}, {"c", "WRITER"}}, kPipe, {8, 8});
  EXPECT_EQ(lines.add({{std::uint64_t{1}, Cell(), std::string("x")}}),
            " VERSION     AFTER  WRITER\n"
            "       1         -  x\n");
  EXPECT_EQ(lines.add({{std::uint64_t{2}, Seconds{0.5}, std::string("x")}}),
            "       2  0.500000  x\n");
}

TEST(Lines, AreAllAsWideWhereTheyAreKeptUntilTheEnd) {
  Lines lines({{"a", "NAME"}, {"b", "BYTES"}}, kPipe);
  lines.take({{std::string("u"), Bytes{5}}});
  lines.take({{std::string("density"), Bytes{7}}});
  EXPECT_EQ(lines.flush(), "NAME     BYTES\nu            5\ndensity      7\n");
  EXPECT_EQ(lines.flush(), "") << "each once";
}

TEST(JsonList, IsTheSameInPartsAndAsAWhole) {
  const Table table = example();
  JsonList list(table.key, table.columns);
  std::string text;
  for (const Row& row : table.rows) text += list.add({row}) + list.add({});
  EXPECT_EQ(text + list.end(), as_json(table));
}

TEST(Record, ShowsALineForEachTitle) {
  const Table record{"",
                     {{"pid", "Pid"}, {"hidden", ""}, {"limit", "Memory limit"}},
                     {{std::int64_t{12}, true, Limit{0}}}};
  EXPECT_EQ(as_lines(record, kPipe), "Pid           12\nMemory limit  none\n");
  EXPECT_EQ(as_json_object(record, {Table{"quotas", {}, {}}}),
            "{\"pid\": 12, \"hidden\": true, \"limit\": null, \"quotas\": []}\n");
}

TEST(Cell, SizesHaveAtMostThreeDigitsAndAUnit) {
  const struct {
    std::uint64_t bytes;
    const char* text;
  } kCases[] = {{0, "0 B"},
                {1023, "1023 B"},
                {1024, "1.0 KiB"},
                {10'239, "10 KiB"},
                {1'048'575, "1.0 MiB"},
                {std::uint64_t{3} << 29, "1.5 GiB"},
                {~std::uint64_t{0}, "16 EiB"}};
  for (const auto& [bytes, text] : kCases) EXPECT_EQ(human_bytes(bytes), text);
}

// For people the folder of the program says least; everybody else gets all of it.
TEST(Cell, ACommandLineIsCutForPeopleAlone) {
  const std::string line = "/opt/venv/bin/python3 /home/u/plot.py " + std::string(100, 'x');
  const Cell command = Command{line};
  const std::string human = to_human(command, 0);
  EXPECT_EQ(human.size(), 60U);
  EXPECT_TRUE(human.starts_with("python3 /home/u/plot.py xx")) << human;
  EXPECT_TRUE(human.ends_with("xx...")) << human;
  EXPECT_EQ(to_plain(command), line);
  EXPECT_EQ(to_json(command), '"' + line + '"');
  EXPECT_EQ(to_human(Command{"daemon"}, 0), "daemon");
  EXPECT_EQ(to_human(Command{}, 0), "-");
}

TEST(Cell, AgesAreRoundedDown) {
  const struct {
    std::uint64_t seconds;
    const char* text;
  } kCases[] = {{0, "0 s"},    {99, "99 s"},        {100, "1 min"},    {5999, "99 min"},
                {6000, "1 h"}, {71 * 3600, "71 h"}, {72 * 3600, "3 d"}};
  for (const auto& [seconds, text] : kCases) EXPECT_EQ(human_duration(seconds * 1000), text);
}

TEST(Cell, RatesHaveThreeDigits) {
  const struct {
    double per_s;
    const char* text;
  } kCases[] = {{0, "0/s"},       {0.25, "0.2/s"},    {60, "60.0/s"},
                {999.4, "999/s"}, {1234.5, "1.2k/s"}, {2e6, "2.0M/s"}};
  for (const auto& [per_s, text] : kCases) EXPECT_EQ(to_human(Rate{per_s}, 0), text);
  EXPECT_EQ(to_plain(Rate{0.25}), "0.250");
  EXPECT_EQ(to_human(BytesRate{1536}, 0), "1.5 KiB/s");
}

TEST(Cell, ShortTimesHaveTheirUnits) {
  const struct {
    double seconds;
    const char* text;
  } kCases[] = {{25e-6, "25 us"}, {0.0167, "16.7 ms"}, {0.25, "250 ms"},
                {1.5, "1.5 s"},   {99.9, "99.9 s"},    {200, "3 min"}};
  for (const auto& [seconds, text] : kCases) EXPECT_EQ(to_human(Seconds{seconds}, 0), text);
  EXPECT_EQ(to_json(Seconds{0.0167}), "0.016700");
}

TEST(Cell, AMomentOfAnotherDayHasItsDate) {
  EXPECT_EQ(to_human(Moment{kToday}, kToday).size(), std::string_view("22:13:20").size());
  EXPECT_EQ(to_human(Moment{kToday - 86'400'000}, kToday).size(),
            std::string_view("2023-11-13 22:13:20").size());
  EXPECT_EQ(to_plain(Moment{kToday}), "2023-11-14T22:13:20Z");
  EXPECT_EQ(to_json(Moment{}), "null");
}

TEST(Cell, AClockThatWasSetBackGivesNoHugeAge) {
  EXPECT_EQ(to_human(Time{kToday + 5000}, kToday), "0 s ago");
}

TEST(Cell, AGpuHasTheBeginningOfItsNameForPeopleAlone) {
  const Device gpu{"GPU-6a9f01c2-73cd-44b1-a2c4-0d3a31f0a8be"};
  EXPECT_EQ(to_human(gpu, kToday), "GPU-6a9f01c2...");
  EXPECT_EQ(to_plain(gpu), gpu.name);
  EXPECT_EQ(to_json(gpu), '"' + gpu.name + '"');
  EXPECT_EQ(to_human(Device{"host"}, kToday), "host");
  EXPECT_EQ(to_human(Device{"GPU-1"}, kToday), "GPU-1");
}

TEST(Cell, ProcessNamesCannotControlTheTerminal) {
  EXPECT_EQ(to_plain(std::string("a\x1b[2Jb\nc\x7F\xFF")), "a?[2Jb?c??");
  EXPECT_EQ(to_plain(std::string("\xC2\x9B"
                                 "31m")),
            "?31m");
  EXPECT_EQ(to_plain(std::string("s\xC3\xB6lver")), "s\xC3\xB6lver");
}

TEST(Cell, JsonStringsAreEscaped) {
  EXPECT_EQ(json_string("a\"b\\c\n\x01\xFF\xC3\xB6"), "\"a\\\"b\\\\c\\u000a\\u0001?\xC3\xB6\"");
  EXPECT_EQ(json_string("\xE2\x80\xAE\xC2\x9B\xD8\x9C\xE2\x81\xA6\xE2\x82\xAC"),
            "\"\\u202e\\u009b\\u061c\\u2066\xE2\x82\xAC\"");
  EXPECT_EQ(wire::printable("\xE2\x80\xAE\xC2\x9B\xE2\x82\xAC\x1B"), "??\xE2\x82\xAC?");
}

TEST(Cell, ValuesWithoutAMeaningAreNull) {
  EXPECT_EQ(to_json(Cell()), "null");
  EXPECT_EQ(to_json(Time{}), "null");
  EXPECT_EQ(to_json(Limit{}), "null");
  EXPECT_EQ(to_plain(Cell()), "-");
  EXPECT_EQ(to_plain(std::string()), "-");
  EXPECT_EQ(to_plain(std::vector<std::uint64_t>{}), "-");
}

}  // namespace
}  // namespace memlease::ctl
