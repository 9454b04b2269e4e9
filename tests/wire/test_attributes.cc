#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "memlease/v1/types.pb.h"
#include "wire/attributes.h"
#include "wire/error.h"
#include "wire/grpc/convert.h"

namespace memlease::wire {
namespace {

using ::testing::HasSubstr;

// One attribute of each kind, and empty values.
Attributes every_kind() {
  return {{"axes", std::vector<std::string>{"lat", "", "lon"}},
          {"empty", std::vector<double>{}},
          {"least", std::numeric_limits<std::int64_t>::min()},
          {"long_name", "Lufttemperatur, \u00b0C"},
          {"none", ""},
          {"origin", std::vector<double>{-0.5, 1e300}},
          {"periodic", false},
          {"scale", 0.1},
          {"tiles", std::vector<std::int64_t>{1, -2}}};
}

std::uint64_t bytes_of(const Attributes& attributes) { return size_bytes_of(attributes); }
bool is_valid(const Attributes& attributes) { return validate(attributes).ok(); }

void expect_refused(const Attributes& attributes, const std::string& part) {
  const absl::Status status = validate(attributes);
  EXPECT_EQ(code_of(status), ErrorCode::kInvalidArgument);
  EXPECT_THAT(message_of(status), HasSubstr(part));
}

std::size_t message_bytes(const Attributes& attributes) {
  std::size_t bytes = 0;
  for (const auto& attribute : to_proto(attributes)) {
    constexpr std::size_t kTagAndLength = 4;
    bytes += kTagAndLength + attribute.ByteSizeLong();
  }
  return bytes;
}

TEST(Attributes, AreTheSameAfterAJourney) {
  const Attributes attributes = every_kind();
  ASSERT_TRUE(is_valid(attributes));
  const auto arrived = from_proto(to_proto(attributes));
  ASSERT_TRUE(arrived.ok()) << arrived.status();
  EXPECT_EQ(*arrived, attributes);
  EXPECT_EQ(from_proto(to_proto(Attributes())).value(), Attributes());
}

TEST(Attributes, AreCountedByTheirNamesAndElements) {
  EXPECT_EQ(bytes_of({}), 0U);
  EXPECT_EQ(bytes_of({{"on", true}}), 16U + 2 + 8);
  EXPECT_EQ(bytes_of({{"units", "K"}, {"step", std::int64_t{3}}}),
            (16U + 5 + 8 + 1) + (16 + 4 + 8));
  EXPECT_EQ(bytes_of({{"x", std::vector<std::string>{"ab", ""}}}), 16U + 1 + (8 + 2) + 8);
  EXPECT_EQ(bytes_of({{"x", std::vector<double>(3)}}), 16U + 1 + 3 * 8);
}

TEST(Attributes, TakeNoMoreThanThatInAMessage) {
  for (const auto& attribute : every_kind()) {
    EXPECT_LE(message_bytes({attribute}), bytes_of({attribute})) << attribute.first;
  }
  const Attributes long_ones = {
      {"ints", std::vector<std::int64_t>(1000, -1)},
      {"texts", std::vector<std::string>(1000)},
      {std::string(kMaxAttributeNameBytes, 'n'), std::string(20000, 't')}};
  EXPECT_LE(message_bytes(long_ones), size_bytes_of(long_ones));
}

TEST(Attributes, HaveALimitToAllOfThemTogether) {
  const std::size_t room = kMaxAttributeBytes - 16 - 1 - 8;
  EXPECT_TRUE(is_valid({{"x", std::string(room, 't')}}));
  expect_refused({{"x", std::string(room + 1, 't')}},
                 "the attributes take 32769 bytes, at most 32768");
  expect_refused({{"x", std::string(room, 't')}, {"y", true}}, "at most 32768");
  expect_refused({{"x", std::vector<std::int64_t>(kMaxAttributeBytes / 8)}}, "at most 32768");
}

TEST(Attributes, HaveNamesThatTerminalsCanShow) {
  for (const char* const name : {"units", "_FillValue", "valid range", "\u00e9tat", "a/b"}) {
    EXPECT_TRUE(is_valid({{name, true}})) << name;
  }
  EXPECT_TRUE(is_valid({{std::string(kMaxAttributeNameBytes, 'n'), true}}));
  expect_refused({{"", true}}, "is empty");
  expect_refused({{std::string(kMaxAttributeNameBytes + 1, 'n'), true}}, "256 bytes");
  expect_refused({{"a\x1b[2J", true}}, "control character");
  expect_refused({{std::string("a\0b", 3), true}}, "control character");
  expect_refused({{"\xff", true}}, "not UTF-8");
}

TEST(Attributes, TakeMoreMemoryThanTheyCount) {
  const Attributes texts{{"x", std::vector<std::string>(4000)}};
  EXPECT_LE(size_bytes_of(texts), kMaxAttributeBytes);
  EXPECT_GE(memory_bytes_of(texts), 4000 * sizeof(std::string));
  Attributes flags;
  for (int i = 0; i < 1000; ++i) flags[std::to_string(i)] = true;
  EXPECT_LE(size_bytes_of(flags), kMaxAttributeBytes);
  EXPECT_GE(memory_bytes_of(flags), 1000 * sizeof(Attributes::value_type));
}

TEST(Attributes, HaveTextsInUtf8) {
  expect_refused({{"x", "\xc3"}}, "'x' has text that is not UTF-8");
  expect_refused({{"x", std::vector<std::string>{"fine", "\xff"}}}, "'x' has text");
}

TEST(Attributes, RefuseANameThatComesTwiceAndAKindOfALaterRelease) {
  auto twice = to_proto(Attributes{{"x", true}});
  *twice.Add() = twice.Get(0);
  EXPECT_THAT(message_of(from_proto(twice).status()), HasSubstr("'x' is there twice"));
  google::protobuf::RepeatedPtrField<v1::NamedAttribute> unknown;
  unknown.Add()->set_name("x");
  const auto status = from_proto(unknown).status();
  EXPECT_EQ(code_of(status), ErrorCode::kInvalidArgument);
  EXPECT_THAT(message_of(status), HasSubstr("'x' has a value of a kind that is not known"));
}

}  // namespace
}  // namespace memlease::wire
