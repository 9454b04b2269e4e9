// MemArray on the host: typed elements, locks between processes, copies and moves.
#include <memlease/memlease.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "tests/support/options_for.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
// As a library has it.
struct Half {
  std::uint16_t bits = 0;
};
}  // namespace memlease::testing

template <>
struct memlease::DTypeOf<memlease::testing::Half> {
  static constexpr DType kDType = {2, 16, 1};
};

namespace memlease::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class MemArrayTest : public ::testing::Test {
 protected:
  // What a call that fails says.
  template <typename Call>
  static std::string message_of(Call call) {
    try {
      call();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "nothing";
  }

  PrivateDaemon daemon;
  Client client = Client::connect(options_for(daemon));
};

TEST_F(MemArrayTest, BeginsWithZerosAndHasItsElementsOneByOne) {
  MemArray<float, 3> a(client, {2, 4, 7});
  EXPECT_THAT(a.shape(), ElementsAre(2, 4, 7));
  EXPECT_EQ(a.size(), 56);
  EXPECT_EQ(a.device(), "host");
  EXPECT_EQ(a(1, 3, 6), 0.0F);
  a.write({1, 3, 6}, 2.5F);
  EXPECT_EQ(a(1, 3, 6), 2.5F);
  EXPECT_EQ(a({1, 3, 5}), 0.0F);
  EXPECT_EQ(a.version(), 2U);
}

TEST_F(MemArrayTest, HasElementsOfAnyTypeThatHasADType) {
  MemArray<Half, 1> a(client, {3}, "host", "halves");
  a.write({1}, Half{0x3c00});
  EXPECT_EQ(a(1).bits, 0x3c00);
  EXPECT_EQ(name_of(client.open("halves").dtype()), "float16");
}

TEST_F(MemArrayTest, SaysWhichIndexIsOutsideOfWhat) {
  MemArray<int, 2> a(client, {2, 3});
  EXPECT_THAT(message_of([&] { static_cast<void>(a(0, 3)); }),
              HasSubstr("index 3 of dimension 1 is outside of [0, 3)"));
  EXPECT_THAT(message_of([&] { a.write({-1, 0}, 1); }), HasSubstr("index -1 of dimension 0"));
  const auto change = [&] {
    const auto lock = a.lock();
    lock.at(2, 0) = 1;
  };
  EXPECT_THAT(message_of(change), HasSubstr("index 2 of dimension 0"));
  EXPECT_EQ(a.version(), 1U) << "an exception publishes nothing";
}

TEST_F(MemArrayTest, ALockKeepsWritersInOtherProcessesOut) {
  const MemArray<std::uint64_t, 1> a(client, {600}, "host", "a");
  Peer other(daemon.directory());
  ASSERT_TRUE(other.ask("connect").ok());
  {
    const auto lock = a.lock();
    lock.at(5) = 7;
    EXPECT_EQ(other.ask("put a 50").code, "Timeout");
    EXPECT_EQ(a(5), 0U) << "readers go on with the last version";
    EXPECT_EQ(other.ask("version a").text, "1");
  }
  EXPECT_EQ(a(5), 7U);
  EXPECT_TRUE(other.ask("put a 1000").ok());
  EXPECT_EQ(a.version(), 3U);
}

TEST_F(MemArrayTest, ALocksElementsAreThoseOfTheNewestVersion) {
  const MemArray<int, 1> a(client, {3});
  for (const int i : {0, 1}) {
    const auto lock = a.lock();
    lock.at(i) = i + 1;
  }
  std::vector<int> elements(3);
  a.get(elements.data(), 3);
  EXPECT_THAT(elements, ElementsAre(1, 2, 0));
  auto dropped = a.lock();
  dropped.at(2) = 3;
  dropped.drop();
  EXPECT_EQ(a(2), 0);
}

TEST_F(MemArrayTest, AnExceptionLeavesItAsItWas) {
  const MemArray<int, 1> a(client, {3});
  try {
    const auto lock = a.lock();
    lock.at(0) = 1;
    throw std::runtime_error("in the middle");
  } catch (const std::runtime_error&) {
    EXPECT_EQ(a(0), 0);
  }
  EXPECT_EQ(a.version(), 1U);
}

TEST_F(MemArrayTest, CopiesAreDeepAndMovesAreNot) {
  MemArray<int, 1> a(client, {3});
  a.write({0}, 1);
  MemArray<int, 1> copy = a;
  copy.write({0}, 2);
  EXPECT_EQ(a(0), 1);
  EXPECT_NE(copy.array().name(), a.array().name());
  const std::string name = a.array().name();
  const std::uint64_t copies = client.copies();
  MemArray<int, 1> moved = std::move(a);
  EXPECT_EQ(moved.array().name(), name);
  swap(moved, copy);
  EXPECT_EQ(copy.array().name(), name);
  EXPECT_EQ(client.copies(), copies);
  copy = moved;
  EXPECT_EQ(copy(0), 2);
}

// No call of these says how long it would wait for others to publish one.
TEST_F(MemArrayTest, OfAnArrayWithoutAVersionSaysSo) {
  const MemArray<int, 1> a(client, client.create({"a", dtype_of<int>(), {3}}));
  EXPECT_THAT(message_of([&] { static_cast<void>(a(0)); }), HasSubstr("'a' has no version yet"));
  EXPECT_THAT(message_of([&] { const MemArray<int, 1> copy = a; }), HasSubstr("no version yet"));
  EXPECT_THAT(message_of([&] { static_cast<void>(a.lock()); }), HasSubstr("put() all elements"));
  MemArray<int, 1> moved = MemArray<int, 1>(client, a.array());
  moved.to("host");
  EXPECT_EQ(moved.version(), 0U);
  EXPECT_THAT(client.list("mem_array/*"), IsEmpty()) << "no copy is left";
}

TEST_F(MemArrayTest, AnotherCountOfElementsIsRefused) {
  MemArray<double, 1> a(client, {4});
  std::array<double, 4> elements{};
  for (const std::int64_t count : {std::int64_t{3}, 4 + (std::int64_t{1} << 61)}) {
    EXPECT_THAT(message_of([&] { a.put(elements.data(), count); }), HasSubstr("has 4 elements"));
    EXPECT_THAT(message_of([&] { a.get(elements.data(), count); }), HasSubstr("has 4 elements"));
  }
  const std::size_t none = 0;
  EXPECT_THAT(message_of([&] { a.array().get(Region{none - 1}, elements.data(), 8); }),
              HasSubstr("index"));
}

TEST_F(MemArrayTest, AssignedToItselfItIsTheSameArray) {
  MemArray<float, 1> a(client, {3}, "host", "self");
  const auto& same = a;
  a = same;
  EXPECT_EQ(a.array().name(), "self");
}

TEST_F(MemArrayTest, IsAFaceOfOthersArraysWhateverTheirStrides) {
  CreateOptions options{"f", dtype_of<double>(), {2, 3}};
  options.strides_bytes = {8, 16};
  const Array array = client.create(options);
  const std::vector<double> elements = {1, 2, 3, 4, 5, 6};
  array.put(elements.data(), 48);
  const MemArray<double, 2> a(client, client.open("f"));
  EXPECT_EQ(a(1, 0), 4);
  MemArray<double, 2> copy = a;
  copy.write({1, 0}, 7);
  EXPECT_EQ(a(1, 0), 4);
  EXPECT_EQ(copy(1, 0), 7);
  EXPECT_EQ(copy.array().strides_bytes(), array.strides_bytes());
  EXPECT_THAT(message_of([&] { MemArray<float, 2>(client, array); }),
              HasSubstr("'f' has 2 dimensions of float64: a MemArray of 2 dimensions of float32"));
  EXPECT_THAT(message_of([&] { MemArray<double, 3>(client, array); }), HasSubstr("3 dimensions"));
}

TEST_F(MemArrayTest, WhatWasMovedFromIsAHandleStill) {
  Array array = client.create({"a", dtype_of<int>(), {1}});
  const Array moved = std::move(array);
  EXPECT_EQ(array.name(), "a");  // NOLINT(bugprone-use-after-move): that is what is tested
  Client other = client;
  const Client taken = std::move(other);
  EXPECT_EQ(other.list().size(), 1U);  // NOLINT(bugprone-use-after-move)
}

TEST_F(MemArrayTest, IndexesInLoopsAsKernelsDo) {
  const MemArray<int, 2> a(client, {3, 4});
  {
    const auto lock = a.lock();
    const auto indexer = lock.indexer<std::int32_t>();
    for (std::int32_t i = 0; i < indexer.size(); ++i) {
      const auto at = indexer.get_indices(i);
      indexer.element(i) += at[0] + at[1];
    }
  }
  EXPECT_EQ(a(2, 3), 5);
  const auto reading = a.read();
  EXPECT_EQ(reading.indexer()(1, 2), 3);
  EXPECT_EQ(reading.version(), 2U);
}

TEST_F(MemArrayTest, MayHaveNoElements) {
  const MemArray<int, 2> a(client, {0, 4});
  EXPECT_EQ(a.size(), 0);
  EXPECT_THROW(static_cast<void>(a(0, 0)), std::out_of_range);
  MemArray<int, 2> copy = a;
  copy.to("host");
  EXPECT_EQ(copy.version(), 1U);
}

TEST_F(MemArrayTest, OnADeviceThatIsNotThereItStaysWhereItIs) {
  MemArray<int, 1> a(client, {3});
  a.write({0}, 1);
  EXPECT_THROW(a.to("gpu"), Error);
  EXPECT_EQ(a.device(), "host");
  EXPECT_EQ(a(0), 1);
}

}  // namespace
}  // namespace memlease::testing
