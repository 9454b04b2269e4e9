#include <fnmatch.h>

#include <chrono>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "rapidcheck/gtest.h"
#include "server/core/name_pattern.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using ::testing::HasSubstr;
using wire::ErrorCode;

bool matches(const std::string& pattern, const std::string& name) {
  const auto parsed = NamePattern::parse(pattern);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() && parsed->matches(name);
}

TEST(NamePattern, StarIsAnyTextAndQuestionMarkOneCharacter) {
  EXPECT_TRUE(matches("sim/*", "sim/rank0/density"));
  EXPECT_TRUE(matches("sim/*/density", "sim/rank0/density"));
  EXPECT_TRUE(matches("sim*", "sim"));
  EXPECT_TRUE(matches("**", "a"));
  EXPECT_TRUE(matches("rank?/x", "rank7/x"));
  EXPECT_TRUE(matches("*a*b", "xaxbxb"));
  EXPECT_FALSE(matches("rank?/x", "rank/x"));
  EXPECT_FALSE(matches("sim/*", "sim"));
  EXPECT_FALSE(matches("im/u", "sim/u"));
  EXPECT_FALSE(matches("sim/u", "sim/u2"));
}

TEST(NamePattern, EmptyMatchesAll) { EXPECT_TRUE(matches("", "sim/u")); }

TEST(NamePattern, TheLongestMatches) {
  const std::string name(wire::kMaxNameBytes, 'a');
  EXPECT_TRUE(matches(name, name));
  EXPECT_TRUE(matches(std::string(wire::kMaxNameBytes, '?'), name));
  EXPECT_TRUE(matches(std::string(wire::kMaxNameBytes, '*'), name));
}

TEST(NamePattern, RefusesWhatIsTooLong) {
  const auto pattern = NamePattern::parse("*[" + std::string(60'000, 'b') + "]");
  EXPECT_EQ(wire::code_of(pattern.status()), ErrorCode::kInvalidArgument);
  EXPECT_THAT(wire::message_of(pattern.status()), HasSubstr("60003 bytes, at most 255"));
  EXPECT_NE(wire::hint_of(pattern.status()), "");
}

TEST(NamePattern, RefusesCharactersThatNoNameHas) {
  for (const std::string text : {"sim/[ab]", "sim\\*", "a b", "\xc3\xb6"}) {
    const auto pattern = NamePattern::parse(text);
    EXPECT_EQ(wire::code_of(pattern.status()), ErrorCode::kInvalidArgument) << text;
  }
  EXPECT_THAT(wire::message_of(NamePattern::parse("sim/[ab]").status()),
              HasSubstr("byte 0x5b at position 4"));
}

// Whoever tries one star after the other needs more than the age of the universe here.
TEST(NamePattern, TakesNoLongerForManyStars) {
  std::string text;
  while (text.size() < wire::kMaxNameBytes - 1) text += "*a";
  const auto pattern = NamePattern::parse(text + "b");
  ASSERT_TRUE(pattern.ok());
  const std::string name(wire::kMaxNameBytes, 'a');
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 10'000; ++i) ASSERT_FALSE(pattern->matches(name));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

RC_GTEST_PROP(NamePattern, AgreesWithFnmatch, ()) {
  const auto text_of = [](const std::string& letters) {
    return rc::gen::container<std::string>(rc::gen::elementOf(letters));
  };
  const auto pattern = *rc::gen::suchThat(text_of("ab/*?"), [](const auto& p) { return p != ""; });
  const auto name = *text_of("ab/");
  RC_ASSERT(matches(pattern, name) == (fnmatch(pattern.c_str(), name.c_str(), 0) == 0));
}

}  // namespace
}  // namespace memlease::server
