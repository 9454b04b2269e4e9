#include "client/ctl/live.h"
#include "gtest/gtest.h"

namespace memlease::ctl {
namespace {

class LiveTest : public ::testing::Test {
 protected:
  struct Seen {
    std::uint64_t id;
    std::uint64_t version;
  };
  void add(double seconds, const std::vector<Seen>& arrays) {
    v1::SampleReply sample;
    for (const Seen& seen : arrays) {
      sample.add_array_ids(seen.id);
      sample.add_versions(seen.version);
      sample.add_writer_sessions(3);
      sample.add_open_sessions(2);
      sample.add_slots(4);
      if (seen.id <= live_.known_through()) continue;
      v1::ArrayInfo& info = *sample.add_described();
      info.set_array_id(seen.id);
      info.mutable_spec()->set_name("a" + std::to_string(seen.id));
      info.mutable_spec()->set_device("host");
      info.set_slots(3);
      info.set_bytes(300);
    }
    live_.add(sample, seconds);
  }
  const LiveArray& array(std::uint64_t id) {
    for (const LiveArray& array : live_.arrays()) {
      if (array.id == id) return array;
    }
    ADD_FAILURE() << "there is no array " << id;
    static const LiveArray kNone;
    return kNone;
  }

  Live live_;
};

TEST_F(LiveTest, TheFirstSampleHasNoRates) {
  add(10, {{1, 500}});
  EXPECT_EQ(array(1).versions_per_s, 0);
  EXPECT_EQ(array(1).version, 500U);
  EXPECT_EQ(array(1).name, "a1");
  EXPECT_EQ(array(1).bytes(), 400U) << "of the slots that there are now";
}

TEST_F(LiveTest, ARateIsOfTheLastSamples) {
  for (unsigned i = 0; i < 10; ++i) add(10 + i * 0.5, {{1, 100 + std::uint64_t{30} * i}, {2, 7}});
  EXPECT_DOUBLE_EQ(array(1).versions_per_s, 60);
  EXPECT_DOUBLE_EQ(array(1).bytes_per_s(), 6000);
  EXPECT_EQ(array(2).versions_per_s, 0);
  add(15, {{1, 370}, {2, 7}});
  EXPECT_DOUBLE_EQ(array(1).versions_per_s, 45) << "three steps of 30, and one without";
  for (int i = 0; i < 4; ++i) add(15.5 + i * 0.5, {{1, 370}, {2, 7}});
  EXPECT_EQ(array(1).versions_per_s, 0);
}

// A rate that came from the time before it would be wrong.
TEST_F(LiveTest, AVersionThatIsMissingForAWhileDoesNotCountTwice) {
  for (unsigned i = 0; i < 4; ++i) add(i, {{1, 1000 + std::uint64_t{10} * i}});
  add(4, {{1, 0}});
  EXPECT_EQ(array(1).version, 0U);
  EXPECT_DOUBLE_EQ(array(1).versions_per_s, 7.5) << "three steps of 10, and one without";
  for (unsigned i = 5; i < 9; ++i) add(i, {{1, 1000 + std::uint64_t{10} * i}});
  EXPECT_DOUBLE_EQ(array(1).versions_per_s, 12.5) << "one of 20 and three of 10";
}

TEST_F(LiveTest, AnArrayThatIsNewIsCountedFromItsFirstSample) {
  add(0, {{1, 0}});
  add(1, {{1, 0}, {2, 1000}});
  EXPECT_EQ(array(2).versions_per_s, 0);
  add(2, {{1, 0}, {2, 1010}});
  EXPECT_DOUBLE_EQ(array(2).versions_per_s, 10);
}

TEST_F(LiveTest, WhatHasGoneIsForgotten) {
  add(0, {{1, 0}, {2, 0}, {3, 0}});
  add(1, {{1, 5}, {3, 8}});
  ASSERT_EQ(live_.arrays().size(), 2U);
  EXPECT_DOUBLE_EQ(array(1).versions_per_s, 5);
  EXPECT_DOUBLE_EQ(array(3).versions_per_s, 8);
  add(2, {{3, 8}});
  EXPECT_EQ(live_.arrays().size(), 1U);
  add(3, {});
  EXPECT_TRUE(live_.arrays().empty());
}

TEST_F(LiveTest, ItIsToldOfNewArraysAlone) {
  add(0, {{1, 0}, {7, 0}});
  EXPECT_EQ(live_.known_through(), 7U);
  add(1, {{1, 0}, {7, 0}, {9, 0}});
  EXPECT_EQ(live_.known_through(), 9U);
  EXPECT_EQ(array(9).name, "a9");
  EXPECT_EQ(array(7).name, "a7");
}

// A daemon of another version may say less.
TEST_F(LiveTest, ShortColumnsAreNoArrays) {
  v1::SampleReply sample;
  sample.add_array_ids(1);
  live_.add(sample, 0);
  EXPECT_TRUE(live_.arrays().empty());
}

}  // namespace
}  // namespace memlease::ctl
