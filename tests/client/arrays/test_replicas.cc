// Reads and writes of an array that is in two places, on fakes: both on the host, so that nothing
// can be copied.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "client/arrays/replicas.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/arrays/array_world.h"
#include "tests/support/eventually.h"
#include "tests/support/fake_handle_owner.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using wire::ErrorCode;

constexpr std::uint32_t kNumber = 3;  // the replica's

class ReplicasTest : public ::testing::Test {
 protected:
  ReplicasTest() {
    replica.answer.replica_number = kNumber;
    server::set_elsewhere(home.board(), kNumber, true);
  }
  void open(bool may_write_home = true) {
    home.answer.may_write = may_write_home;
    here = home.open();
    there = replica.open();
    owner->on_join_replica = [this](std::uint32_t) { return there; };
    on_home = std::make_shared<ArrayHandle>(HandleOwner::Opened{owner, here});
    on_replica = std::make_shared<ArrayHandle>(HandleOwner::Opened{owner, there});
    on_replica->set_home(on_home);
  }
  absl::Status read(const ReadOptions& options = {}, std::chrono::nanoseconds timeout = 0ns) {
    WaitLimit limit(here->session(), 0, timeout, 0ns);
    return begin_read_anywhere(*on_home, options, limit, reading);
  }
  ErrorCode error_of_version(std::uint64_t version) {
    ReadOptions options;
    options.version = version;
    return wire::code_of(read(options));
  }
  absl::Status write() {
    WaitLimit limit(there->session(), 0, 0ns, 0ns);
    return begin_write_on_replica(*on_replica, limit, writing);
  }

  const std::shared_ptr<testing::FakeHandleOwner> owner =
      std::make_shared<testing::FakeHandleOwner>();
  testing::ArrayWorld home;
  testing::ArrayWorld replica;
  std::shared_ptr<OpenArray> here;
  std::shared_ptr<OpenArray> there;
  std::shared_ptr<ArrayHandle> on_home;
  std::shared_ptr<ArrayHandle> on_replica;
  ReadAttempt reading;
  WriteAttempt writing;
};

TEST_F(ReplicasTest, AReadTakesWhatIsHereUnlessSomethingNewerIsElsewhere) {
  open();
  replica.publish_elsewhere(1);
  home.publish_elsewhere(3);
  const auto status = read();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(reading.version, 3U);
  here->end_read(reading.slot);
  EXPECT_FALSE(there->in_use());
}

TEST_F(ReplicasTest, WhoMayNotWriteCopiesNothing) {
  open(false);
  replica.publish_elsewhere();
  const auto status = read();
  EXPECT_EQ(wire::code_of(status), ErrorCode::kDenied);
  EXPECT_THAT(wire::message_of(status), HasSubstr("may not copy it"));
  EXPECT_FALSE(there->in_use());
}

TEST_F(ReplicasTest, AThreadThatWritesTheArrayCopiesNothing) {
  open();
  replica.publish_elsewhere();
  ASSERT_TRUE(here->writing().enter());
  const auto status = read();
  here->writing().leave();
  EXPECT_EQ(wire::code_of(status), ErrorCode::kBusy);
  EXPECT_THAT(wire::message_of(status), HasSubstr("this thread itself is writing"));
}

// A write under way may be the copy that is wanted. Behind it comes the next one already: then the
// read queues up for ownership, without a hold.
TEST_F(ReplicasTest, AReadWaitsForOwnershipOnceAWriteHasFollowedAnother) {
  open();
  replica.publish_elsewhere();
  auto& writer = home.row<wire::WriterRow>(home.kWriter);
  writer.writing.store(1);
  bool held = true;
  std::atomic<int> asked{0};
  home.control->on_acquire_writer = [&]() -> absl::StatusOr<WriterAnswer> {
    held = there->in_use();
    ++asked;
    return absl::CancelledError("enough");
  };
  const auto& reader = home.row<wire::ReaderRow>(home.kOwnReader);
  std::thread other([&] {
    EXPECT_TRUE(testing::eventually([&] { return reader.sleeping.load() != 0; }));
    EXPECT_EQ(asked, 0);
    ++writer.publish_count;
    wire::futex_wake_all(writer.publish_count);
  });
  const auto status = read({}, 60s);
  other.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(held);
  EXPECT_FALSE(here->writing().entered());
}

// But for a moment nobody has the number, so that who holds the slot may write elsewhere.
TEST_F(ReplicasTest, AWriteWaitsForASlotWithoutANumber) {
  open();
  home.grant_ownership();
  replica.grant_ownership();
  replica.publish_elsewhere();
  for (const std::uint32_t slot : {0U, 1U}) replica.read_elsewhere(slot);
  const auto& waiting = replica.row<wire::WriterRow>(replica.kOwnWriter);
  auto& reading_elsewhere = replica.row<wire::ReaderRow>(replica.kReader);
  std::thread reader([&] {
    EXPECT_TRUE(testing::eventually(
        [&] { return waiting.wanted.load() != 0 && !here->writing().entered(); }));
    --reading_elsewhere.holds()[0];
    ++reading_elsewhere.release_count;
    wire::futex_wake_all(reading_elsewhere.release_count);
  });
  WaitLimit limit(there->session(), 0, 60s, 0ns);
  const auto status = begin_write_on_replica(*on_replica, limit, writing);
  reader.join();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(writing.version, 1U) << "no number was used up meanwhile";
  there->end_write(writing.slot, writing.version, false);
  EXPECT_FALSE(here->writing().entered());
}

TEST_F(ReplicasTest, WhatIsNowhereDoesNotCome) {
  open();
  EXPECT_EQ(wire::code_of(read()), ErrorCode::kTimeout);
}

// Whatever place it was written on.
TEST_F(ReplicasTest, ANumberThatWasGivenUpIsGone) {
  open();
  home.publish_elsewhere(1);
  auto& writer = home.row<wire::WriterRow>(home.kWriter);
  EXPECT_EQ(error_of_version(2), ErrorCode::kTimeout) << "it has not been taken";
  writer.writing.store(1);
  writer.highest_used.store(2);
  EXPECT_EQ(error_of_version(2), ErrorCode::kTimeout) << "it is under way";
  writer.writing.store(0);
  EXPECT_EQ(error_of_version(2), ErrorCode::kVersionGone);
  EXPECT_EQ(error_of_version(3), ErrorCode::kTimeout);
  replica.board().poisoned()[0].store(2);
  EXPECT_EQ(error_of_version(2), ErrorCode::kProducerDied) << "its writer's death has ended it";
}

// It would wait for a version without a word, and at full speed.
TEST_F(ReplicasTest, AWaitEndsWithTheErrorOfAnOnlySlotWhoseWriteCameToNothing) {
  home.answer.spec.slots = home.answer.spec.max_slots = 1;
  home.answer.slots.resize(1);
  open();
  home.publish_elsewhere(2);
  ReadOptions newer;
  newer.newer_than = 2;
  auto& writer = home.row<wire::WriterRow>(home.kWriter);
  writer.highest_used.store(3);
  writer.slot_words()[0].store(0);
  writer.publication.store(0);
  writer.writing.store(1);
  EXPECT_EQ(wire::code_of(read(newer)), ErrorCode::kTimeout) << "it is under way on the replica";
  writer.writing.store(0);
  EXPECT_EQ(wire::code_of(read(newer, 60s)), ErrorCode::kWriteAborted);
  EXPECT_EQ(reading.version, 3U);
  home.board().poisoned()[0].store(3);
  EXPECT_EQ(wire::code_of(read(newer, 60s)), ErrorCode::kProducerDied);
  newer.newer_than = 3;
  EXPECT_EQ(wire::code_of(read(newer)), ErrorCode::kTimeout) << "who knows waits for the next";
}

TEST_F(ReplicasTest, AWaitTakesTheReplicasVersionWhereTheHomesOnlySlotIsEmpty) {
  home.answer.spec.slots = home.answer.spec.max_slots = 1;
  home.answer.slots.resize(1);
  open();
  home.publish_elsewhere(2);
  auto& writer = home.row<wire::WriterRow>(home.kWriter);
  writer.highest_used.store(3);
  writer.slot_words()[0].store(0);
  home.files->watched = replica.files->watched = true;
  std::thread other([&] {
    EXPECT_TRUE(testing::eventually([&] { return replica.files->watches > 0; }));
    writer.writing.store(1);
    writer.highest_used.store(4);
    auto& published = replica.row<wire::WriterRow>(replica.kWriter);
    published.slot_words()[0].store(4);
    published.publication.store(wire::pack({4, 0}));
    writer.writing.store(0);  // only now is the sleeper woken
    ++writer.publish_count;
    wire::futex_wake_all(writer.publish_count);
  });
  ReadOptions newer;
  newer.newer_than = 3;
  WaitLimit limit(there->session(), 0, 60s, 0ns);
  const auto status = begin_read_anywhere(*on_replica, newer, limit, reading);
  other.join();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(reading.version, 4U);
  there->end_read(reading.slot);
}

TEST_F(ReplicasTest, AWriteHasItsNumberFromTheHome) {
  open();
  home.publish_elsewhere();
  home.offer_ownership();
  replica.grant_ownership();
  const auto status = write();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(writing.version, 2U);
  EXPECT_TRUE(here->writing().entered()) << "nobody else gives a number meanwhile";
  there->end_write(writing.slot, writing.version, true);
  EXPECT_FALSE(here->writing().entered());
  EXPECT_EQ(there->known_version(), 2U);
}

TEST_F(ReplicasTest, AWriteThatDoesNotBeginGivesItsNumberBack) {
  open();
  home.grant_ownership();
  EXPECT_FALSE(write().ok()) << "nobody grants the replica's ownership";
  EXPECT_FALSE(here->writing().entered());
  EXPECT_FALSE(there->writing().entered());
}

}  // namespace
}  // namespace memlease::internal
