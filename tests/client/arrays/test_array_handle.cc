// What a handle closes and keeps, where it looks for versions, and what it does in a forked child.
#include <memory>
#include <string>

#include "client/arrays/array_handle.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/arrays/array_world.h"
#include "tests/support/fake_handle_owner.h"
#include "tests/support/forked.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using wire::ErrorCode;

class ArrayHandleTest : public ::testing::Test {
 protected:
  std::shared_ptr<ArrayHandle> handle_on(std::shared_ptr<OpenArray> open) {
    return std::make_shared<ArrayHandle>(HandleOwner::Opened{owner, std::move(open)});
  }
  // Versions of the array may be on that replica from now on.
  void write_on_replica(std::uint32_t number) { server::set_elsewhere(home.board(), number, true); }
  absl::StatusOr<Places> places() { return handle->places(kNoInterrupts); }

  const std::shared_ptr<testing::FakeHandleOwner> owner =
      std::make_shared<testing::FakeHandleOwner>();
  testing::ArrayWorld home;
  testing::ArrayWorld replica;
  const std::shared_ptr<OpenArray> array = home.open();
  std::shared_ptr<ArrayHandle> handle = handle_on(array);
};

TEST_F(ArrayHandleTest, IsClosedOnceAndSaysSo) {
  ASSERT_TRUE(array->membership().add_handle());
  const auto other = handle_on(array);
  EXPECT_TRUE(handle->close(kNoInterrupts).ok());
  EXPECT_TRUE(handle->close(kNoInterrupts).ok());
  EXPECT_EQ(wire::code_of(handle->use()), ErrorCode::kClosed);
  EXPECT_TRUE(other->use().ok());
  EXPECT_FALSE(array->closed());
  EXPECT_TRUE(other->close(kNoInterrupts).ok());
  EXPECT_TRUE(array->left());
}

TEST_F(ArrayHandleTest, ThatDiesCallsNobody) {
  handle.reset();
  EXPECT_EQ(home.control->calls(), 0U);
  EXPECT_FALSE(array->left());
}

TEST_F(ArrayHandleTest, HasNoPlacesBeforeAVersionIsWrittenElsewhere) {
  EXPECT_FALSE(handle->has_places());
  write_on_replica(1);
  EXPECT_TRUE(handle->has_places());
}

TEST_F(ArrayHandleTest, OpensEachReplicaOnce) {
  const auto there = replica.open();
  owner->on_join_replica = [&](std::uint32_t number) {
    EXPECT_EQ(number, 3U);
    return there;
  };
  write_on_replica(3);
  for (int i = 0; i < 2; ++i) {
    const auto found = places();
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_THAT(found->all(), ElementsAre(array, there));
  }
  EXPECT_EQ(owner->joined, 1);
}

TEST_F(ArrayHandleTest, TheNewestVersionIsFoundWhereverItIs) {
  const auto there = replica.open();
  owner->on_join_replica = [&](std::uint32_t) { return there; };
  write_on_replica(3);
  EXPECT_EQ(*places()->newest(kNoInterrupts), 0U);
  replica.publish_elsewhere();
  EXPECT_EQ(*places()->newest(kNoInterrupts), 1U);
  EXPECT_EQ(*places()->place_of_newer(kNoInterrupts), there.get());
}

TEST_F(ArrayHandleTest, AReplicaThatHasGoneIsNoPlace) {
  write_on_replica(3);
  const auto found = places();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->all(), ElementsAre(array));
}

TEST_F(ArrayHandleTest, AnErrorOfItsOwnerIsTold) {
  owner->on_join_replica = [](std::uint32_t) -> absl::StatusOr<std::shared_ptr<OpenArray>> {
    return wire::make_error(ErrorCode::kTimeout, "the daemon does not answer");
  };
  write_on_replica(3);
  EXPECT_EQ(wire::code_of(places().status()), ErrorCode::kTimeout);
}

TEST_F(ArrayHandleTest, AWithdrawnReplicaIsLeftAndLookedForAgain) {
  const auto there = replica.open();
  owner->on_join_replica = [&](std::uint32_t) { return there; };
  write_on_replica(3);
  ASSERT_TRUE(places().ok());
  server::set_withdrawn(replica.board());
  testing::ArrayWorld next;
  const auto made_again = next.open();
  owner->on_join_replica = [&](std::uint32_t) { return made_again; };
  EXPECT_THAT(places()->all(), ElementsAre(array, made_again));
  EXPECT_TRUE(there->left());
}

TEST_F(ArrayHandleTest, AReplicaWhoseBitIsNobodysIsLeft) {
  const auto there = replica.open();
  owner->on_join_replica = [&](std::uint32_t) { return there; };
  write_on_replica(3);
  ASSERT_TRUE(places().ok());
  server::set_elsewhere(home.board(), 3, false);
  EXPECT_THAT(places()->all(), ElementsAre(array));
  EXPECT_TRUE(there->left());
}

TEST_F(ArrayHandleTest, ClosesWithItWhatItHasOpened) {
  const auto there = replica.open();
  owner->on_join_replica = [&](std::uint32_t) { return there; };
  write_on_replica(3);
  ASSERT_TRUE(places().ok());
  EXPECT_TRUE(handle->close(kNoInterrupts).ok());
  EXPECT_TRUE(there->left());
}

TEST_F(ArrayHandleTest, WhatItOpensAfterItsCloseIsClosedAtOnce) {
  const auto there = replica.open();
  owner->on_join_replica = [&](std::uint32_t) {
    ArrayHandle& closing = *handle;
    EXPECT_TRUE(
        closing.close(kNoInterrupts).ok());  // as another thread may, in the middle of a call
    return there;
  };
  write_on_replica(3);
  EXPECT_THAT(places()->all(), SizeIs(2));
  EXPECT_TRUE(there->left());
}

TEST_F(ArrayHandleTest, AReplicasHandleClosesThatOnItsHome) {
  const auto there = replica.open();
  const auto on_replica = handle_on(there);
  on_replica->set_home(handle);
  EXPECT_EQ(&on_replica->home_array(), array.get());
  EXPECT_THAT(on_replica->places(kNoInterrupts)->all(), ElementsAre(there, array));
  EXPECT_TRUE(on_replica->close(kNoInterrupts).ok());
  EXPECT_TRUE(handle->closed());
  EXPECT_TRUE(array->left());
}

TEST_F(ArrayHandleTest, OpensItsArrayAgainInAForkedChildOnce) {
  EXPECT_EQ(testing::in_forked_child([this]() -> std::string {
              testing::ArrayWorld there;
              const auto again = there.open();
              owner->on_open_again = [&] { return HandleOwner::Opened{owner, again}; };
              if (!handle->use().ok() || !handle->use().ok()) return "not to be used";
              if (owner->opened_again != 1) return "opened again more than once";
              if (&handle->array() != again.get()) return "another array";
              EXPECT_TRUE(handle->close(kNoInterrupts).ok());
              return again->left() && !array->closed() ? "right" : "closed the parent's";
            }),
            "right");
  EXPECT_TRUE(handle->use().ok());
}

TEST_F(ArrayHandleTest, LeavesAHomeThatAForkedChildHasOpenedInTheChildsSession) {
  const auto on_replica = handle_on(replica.open());
  on_replica->set_home(handle);
  EXPECT_EQ(testing::in_forked_child([&]() -> std::string {
              testing::ArrayWorld there;
              const auto again = there.open();
              owner->on_open_again = [&] { return HandleOwner::Opened{owner, again}; };
              if (!handle->use().ok()) return "not to be used";
              if (!on_replica->close(kNoInterrupts).ok()) return "not closed";
              if (!replica.control->left.empty()) return "left in the parent's session";
              return there.control->left.size() == 1 ? "right" : "not left";
            }),
            "right");
}

TEST_F(ArrayHandleTest, WhatKeepsAForkedChildFromOpeningItIsTold) {
  EXPECT_EQ(testing::in_forked_child([this]() -> std::string {
              owner->on_open_again = []() -> absl::StatusOr<HandleOwner::Opened> {
                return wire::make_error(ErrorCode::kDaemonLost, "another daemon");
              };
              return wire::code_of(handle->use()) == ErrorCode::kDaemonLost ? "told" : "not told";
            }),
            "told");
  EXPECT_THAT(home.control->left, IsEmpty());
}

}  // namespace
}  // namespace memlease::internal
