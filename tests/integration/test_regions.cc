// Regions of an array in C++: spans with strides, copies, and what does not fit.
#include <memlease/memlease.h>

#include <array>
#include <numeric>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/support/error_of.h"
#include "tests/support/options_for.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class Regions : public ::testing::Test {
 protected:
  Regions() {
    std::vector<int> elements(24);
    std::iota(elements.begin(), elements.end(), 0);
    field.put(elements.data(), 96);
  }
  std::vector<int> elements() const {
    std::vector<int> all(24);
    field.get(all.data(), 96);
    return all;
  }

  PrivateDaemon daemon;
  Client client = Client::connect(options_for(daemon));
  Array field = client.create({"u", dtype_of<int>(), {4, 6}});
};

TEST_F(Regions, ASpanHasTheRegionsShapeAndTheArraysElements) {
  const auto lease = field.read();
  const auto inner = lease.span<int, 2>({Range{1, -1}, Range{0, Range::kToEnd, 2}});
  EXPECT_THAT(inner.shape(), ElementsAre(2, 3));
  EXPECT_THAT(inner.strides_bytes(), ElementsAre(24, 8));
  EXPECT_THAT(std::vector<int>(inner.begin(), inner.end()), ElementsAre(6, 8, 10, 12, 14, 16));
  EXPECT_EQ(&inner(1, 1), &(lease.span<int, 2>()(2, 2)));
  const auto column = lease.span<int, 1>({Range(), 5});
  EXPECT_THAT(std::vector<int>(column.begin(), column.end()), ElementsAre(5, 11, 17, 23));
  EXPECT_EQ(make_indexer(column)(2), 17);
  EXPECT_EQ((lease.span<int, 0>({-1, -1})()), 23);
  EXPECT_EQ((lease.span<int, 2>({Range{2, 2}}).size()), 0);
}

TEST_F(Regions, AnUpdateChangesARegionAndKeepsTheRest) {
  auto lease = field.update();
  for (int& element : lease.span<int, 1>({Range{}, 0})) element = -1;
  for (int& element : lease.span<int, 1>({Range{}, -1})) element = -2;
  lease.publish();
  const auto all = elements();
  EXPECT_THAT(std::vector<int>(all.begin() + 6, all.begin() + 12),
              ElementsAre(-1, 7, 8, 9, 10, -2));
}

TEST_F(Regions, CopiesAreInCOrder) {
  std::vector<int> column(4);
  EXPECT_EQ(field.get({Range(), 1}, column.data(), 16), 1U);
  EXPECT_THAT(column, ElementsAre(1, 7, 13, 19));
  column = {100, 101, 102, 103};
  EXPECT_EQ(field.put({Range(), 2}, column.data(), 16), 2U);
  const auto all = elements();
  EXPECT_THAT(std::vector<int>(all.begin(), all.begin() + 6), ElementsAre(0, 1, 100, 3, 4, 5));
  EXPECT_EQ(all[20], 103);
  const auto lease = field.read({1});
  lease.get({Range{0, 4}, 2}, column.data(), 16);
  EXPECT_THAT(column, ElementsAre(2, 8, 14, 20)) << "the lease's version, not the newest";
}

TEST_F(Regions, AVectorTakesTheWholeArrayAndGivesIt) {
  EXPECT_EQ(field.put(std::vector<int>(24, 7)), 2U);
  std::array<int, 24> elements{};
  EXPECT_EQ(field.get(elements), 2U);
  EXPECT_THAT(elements, Each(7));
  std::vector<int> shorter(23);
  EXPECT_EQ(error_of([&] { field.get(shorter); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(error_of([&] { field.put(std::array<float, 24>()); }), ErrorCode::InvalidArgument);
  EXPECT_THAT(field.get<int>(), AllOf(SizeIs(24), Each(7)));
  EXPECT_EQ(error_of([&] { field.put(std::vector<int>(23)); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(error_of([&] { field.put(std::vector<float>(24)); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(error_of([&] { (void)field.get<unsigned>(); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(field.version(), 2U);
  const Array empty = client.create({"empty", dtype_of<float>(), {3, 0}});
  EXPECT_EQ(empty.put(std::vector<float>()), 1U);
  EXPECT_TRUE(empty.get<float>().empty());
}

TEST_F(Regions, WhatCoversAllNeedsNoVersion) {
  const Array fresh = client.create({"fresh", dtype_of<int>(), {2, 2}});
  const std::vector<int> ones(4, 1);
  EXPECT_EQ(error_of([&] { fresh.put({0}, ones.data(), 8); }), ErrorCode::InvalidArgument);
  EXPECT_EQ(fresh.version(), 0U);
  EXPECT_GT(fresh.put({Range(), Range{0, 2}}, ones.data(), 16), 0U);
  std::vector<int> all(4);
  fresh.get(all.data(), 16);
  EXPECT_THAT(all, Each(1));
}

TEST_F(Regions, WhatDoesNotFitIsRefusedAndPublishesNothing) {
  const auto says = [](auto call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      return error.message();
    }
    return "nothing";
  };
  const auto lease = field.read();
  EXPECT_THAT(says([&] { (void)lease.span<int, 2>({Range(), 0}); }),
              HasSubstr("the region of 'u' (int32[4,6]) has 1 dimensions: a span with 2"));
  EXPECT_THAT(says([&] { (void)lease.span<float, 1>({Range(), 0}); }),
              HasSubstr("a span or view of float32"));
  EXPECT_THAT(says([&] { (void)lease.span<int, 1>({Range(), 6}); }),
              HasSubstr("index 6 of axis 1"));
  EXPECT_THAT(says([&] { (void)lease.span<int, 2>({Range{0, 9}}); }), HasSubstr("from 0 to 9"));
  std::vector<int> buffer(24);
  EXPECT_THAT(says([&] { field.put({Range(), 0}, buffer.data(), 96); }),
              HasSubstr("the region of 'u' (int32[4,6]) has 16 bytes of elements, the buffer 96"));
  EXPECT_THAT(says([&] { field.get({0, 0, 0}, buffer.data(), 4); }), HasSubstr("has 3 axes"));
  EXPECT_EQ(field.version(), 1U);
}

TEST_F(Regions, APinKeepsThem) {
  const int* first = nullptr;
  Pin pin;
  {
    const auto lease = field.read();
    first = lease.span<int, 1>({Range(), 3}).data();
    pin = lease.pin();
  }
  const std::vector<int> zeros(24);
  for (int i = 0; i < 5; ++i) field.put(zeros.data(), 96);
  EXPECT_EQ(first[0], 3);
  EXPECT_EQ(first[6], 9);
}

}  // namespace
}  // namespace memlease::testing
