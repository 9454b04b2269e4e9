// Which replicas are kept open, and by whom they are closed, on fakes.
#include <memory>
#include <optional>

#include "client/arrays/written_replicas.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/arrays/array_world.h"
#include "tests/support/fake_handle_owner.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::uint32_t kReplica = 3;
constexpr std::uint32_t kBit = 1U << kReplica;

class WrittenReplicasTest : public ::testing::Test {
 protected:
  WrittenReplicasTest() {
    owner.on_join_replica = [this](std::uint32_t) { return there; };
  }
  absl::Status look(std::uint32_t bits) {
    found.clear();
    return written->add_to(found, owner, *array, bits, kNoInterrupts);
  }

  testing::FakeHandleOwner owner;
  testing::ArrayWorld home;
  testing::ArrayWorld replica;
  const std::shared_ptr<OpenArray> array = home.open();
  const std::shared_ptr<OpenArray> there = replica.open();
  std::optional<WrittenReplicas> written{std::in_place};
  WrittenReplicas::Arrays found;
};

TEST_F(WrittenReplicasTest, AreOpenedOnceAndClosedWhenNobodyWritesThem) {
  ASSERT_TRUE(look(kBit).ok());
  ASSERT_TRUE(look(kBit).ok());
  EXPECT_THAT(found, ElementsAre(there));
  EXPECT_EQ(owner.joined, 1);
  ASSERT_TRUE(look(0).ok());
  EXPECT_THAT(found, IsEmpty());
  EXPECT_TRUE(there->left());
}

TEST_F(WrittenReplicasTest, AreNotOpenedWhereTheHomeNamesNone) {
  ASSERT_TRUE(look(0).ok());
  EXPECT_EQ(owner.joined, 0);
}

TEST_F(WrittenReplicasTest, OneThatHasGoneIsNoError) {
  owner.on_join_replica = [](std::uint32_t) -> absl::StatusOr<std::shared_ptr<OpenArray>> {
    return wire::make_error(wire::ErrorCode::kNotFound, "it has gone");
  };
  EXPECT_TRUE(look(kBit).ok());
  EXPECT_THAT(found, IsEmpty());
}

TEST_F(WrittenReplicasTest, WhatIsOpenedAfterTheCloseIsClosedAtOnce) {
  owner.on_join_replica = [this](std::uint32_t) {
    written->close();  // as another thread may, in the middle of a call
    return there;
  };
  ASSERT_TRUE(look(kBit).ok());
  EXPECT_THAT(found, ElementsAre(there)) << "for this time";
  EXPECT_TRUE(there->left());
}

TEST_F(WrittenReplicasTest, ThatDieCallNobody) {
  ASSERT_TRUE(look(kBit).ok());
  written.reset();
  EXPECT_FALSE(there->left());
  EXPECT_EQ(replica.control->calls(), 0U);
}

}  // namespace
}  // namespace memlease::internal
