// Whoever meets a limit in the middle of whatever he does loses nothing, and is told which it was.
#include <functional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/core/broker.h"
#include "tests/server/core/broker_world.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using testing::BrokerWorld;
using testing::FakeMemory;
using ::testing::HasSubstr;
using testing::peer_of;
using testing::spec_of;
using wire::code_of;
using wire::ErrorCode;

constexpr uid_t kUid = 1000;

// What must not change.
struct Standing {
  FakeMemory::Live live;
  Usage of_daemon;
  Usage of_host;
  std::size_t arrays = 0;
  std::size_t sessions = 0;
  std::uint64_t memory_bytes = 0;
  friend bool operator==(const Standing&, const Standing&) = default;
};

// Of each kind, the least room that any of the acts below may lack.
struct Kind {
  Resource what;
  std::uint64_t step;
};

class BrokerLimits : public ::testing::TestWithParam<Kind> {
 protected:
  Standing standing() {
    const Broker& broker = world_.broker;
    return {world_.memory.live(),
            broker.quota().used_by(kUid),
            broker.host().quota.used_by(kUid),
            broker.catalog().size(),
            broker.sessions().size(),
            broker.host().segments.memory_bytes()};
  }
  void limit(std::uint64_t most) {
    Broker::Limits limits;
    limits.per_uid.*facts_of(GetParam().what).amount = most;
    world_.broker.set_limits(limits, {});
  }
  std::uint64_t used() {
    const bool of_host = GetParam().what == Resource::kBytes;
    const Usage usage = of_host ? standing().of_host : standing().of_daemon;
    return usage.*facts_of(GetParam().what).amount;
  }
  // With no room for it, then with a little more, until it gets by.
  void must(const std::string& what, const std::function<absl::Status()>& act) {
    const std::uint64_t before = used();
    for (std::uint64_t room = 0; room < 20; ++room) {
      const std::uint64_t most = before + (room * GetParam().step);
      if (most == 0) continue;  // that would be no limit
      limit(most);
      const Standing there = standing();
      const absl::Status status = act();
      if (status.ok()) {
        EXPECT_LE(used(), most) << what;
        limit(0);
        return;
      }
      ++refused_;
      EXPECT_EQ(code_of(status), ErrorCode::kQuotaExceeded) << what << ": " << status;
      EXPECT_THAT(wire::hint_of(status), HasSubstr(facts_of(GetParam().what).setting));
      EXPECT_TRUE(standing() == there) << what << " left a trace";
    }
    ADD_FAILURE() << what << " is refused for ever";
  }

  BrokerWorld world_;
  int refused_ = 0;
};

INSTANTIATE_TEST_SUITE_P(
    Of, BrokerLimits,
    ::testing::Values(Kind{Resource::kBytes, 128}, Kind{Resource::kArrays, 1},
                      Kind{Resource::kSessions, 1}, Kind{Resource::kDescriptors, 1},
                      Kind{Resource::kPageBytes, 64 << 10}, Kind{Resource::kFileNumbers, 3},
                      Kind{Resource::kOpenArrays, 1}),
    [](const auto& test) { return std::string(facts_of(test.param.what).name); });

TEST_P(BrokerLimits, InTheMiddleOfAnythingTakeNothing) {
  Broker& broker = world_.broker;
  Session& first = world_.connect(kUid);
  world_.create(first, spec_of("there"));
  Session* session = nullptr;
  must("to connect", [&] {
    const auto opened = broker.open_session(peer_of(kUid));
    if (opened.ok()) session = broker.sessions().find(opened->session);
    return opened.status();
  });
  ASSERT_NE(session, nullptr);
  wire::ArrayId id{0};
  must("to create", [&] {
    const auto created = world_.try_create(*session, spec_of("new", 0640));
    if (created.ok()) id = created->array->id;
    return created.status();
  });
  must("to open", [&] { return broker.open(*session, "there").status(); });
  wire::RowRef row;
  must("to subscribe", [&] {
    const auto subscribed = broker.subscribe(*session, id);
    if (subscribed.ok()) row = subscribed->row;
    return subscribed.status();
  });
  must("to fetch", [&] { return broker.fetch_file(session->id, row.file).status(); });
  must("to become its writer", [&] { return broker.acquire_writer(*session, id).status(); });
  EXPECT_GT(refused_, 0) << "no act has met the limit";
  for (const wire::SessionId one : {session->id, first.id}) broker.exited(one);
  EXPECT_EQ(standing().of_daemon, Usage{});
  EXPECT_EQ(standing().of_host, Usage{});
}

TEST(BrokerAccount, CountsPagesAndTheNumbersThatSessionsKnow) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  Session& reader = world.connect(1001);
  const auto of = [&](uid_t uid) { return world.broker.quota().used_by(uid); };
  const auto id = world.create(owner, spec_of("u", 0604));
  EXPECT_EQ(of(1000).page_bytes, wire::kBoardBytes + wire::kSessionPageBytes);
  EXPECT_EQ(of(1000).file_numbers, 2U) << "of the board and of the segment";
  world.open(reader, "u");
  world.subscribe(reader, id);
  EXPECT_EQ(of(1001).page_bytes, wire::kSessionPageBytes) << "the reader's rows are the reader's";
  EXPECT_EQ(of(1001).file_numbers, 3U);
  ASSERT_TRUE(world.broker.leave(reader, id, 1).ok());
  EXPECT_EQ(of(1001).file_numbers, 3U) << "they stay taken while it lives";
  world.unmap_pages();
  world.broker.exited(reader.id);
  EXPECT_EQ(of(1001), Usage{});
  world.broker.exited(owner.id);
  EXPECT_EQ(of(1000), Usage{});
}

TEST(BrokerAccount, CountsWhatEachProcessHasOpen) {
  BrokerWorld world;
  Session& owner = world.connect(1000);
  Session& reader = world.connect(1000);
  const auto id = world.create(owner, spec_of("u", 0604));
  world.open(reader, "u");
  world.open(reader, "u");
  const auto open_arrays = [&] { return world.broker.quota().used_by(1000).open_arrays; };
  EXPECT_EQ(open_arrays(), 2U);
  ASSERT_TRUE(world.broker.leave(reader, id, 1).ok());
  EXPECT_EQ(open_arrays(), 2U) << "it is open once more";
  ASSERT_TRUE(world.broker.leave(reader, id, 1).ok());
  EXPECT_EQ(open_arrays(), 1U);
  Broker::Limits limits;
  limits.per_uid.open_arrays = 1;
  world.broker.set_limits(limits, {});
  EXPECT_TRUE(world.broker.open(owner, "u").ok()) << "that one is open already";
  EXPECT_EQ(code_of(world.broker.open(reader, "u").status()), ErrorCode::kQuotaExceeded);
  ASSERT_TRUE(world.broker.withdraw(owner.peer, "u").ok());
  EXPECT_EQ(open_arrays(), 0U) << "it has gone";
}

// A process that makes arrays and withdraws them leaves a number each time, for as long as it
// lives.
TEST(BrokerAccount, NumbersThatRestKeepWithinTheirLimit) {
  Broker::Limits limits;
  limits.per_uid.file_numbers = 40;
  BrokerWorld world(limits);
  Session& session = world.connect(1000);
  absl::Status refused;
  for (int i = 0; i < 100 && refused.ok(); ++i) {
    const auto created = world.try_create(session, spec_of("u"));
    refused = created.status();
    if (!created.ok()) break;
    const wire::ArrayId id = created->array->id;
    ASSERT_TRUE(world.broker.withdraw(session.peer, "u").ok());
    ASSERT_TRUE(world.broker.leave(session, id, 1).ok());
  }
  EXPECT_EQ(code_of(refused), ErrorCode::kQuotaExceeded);
  EXPECT_THAT(wire::message_of(refused), HasSubstr("of its 40 numbers of shared files"));
  EXPECT_TRUE(world.try_create(world.connect(1001), spec_of("other")).ok());
  world.broker.exited(session.id);
  EXPECT_TRUE(world.try_create(world.connect(1000), spec_of("u")).ok());
}

TEST(BrokerAccount, NumbersOfSessionsAreUsedAgainWhenAllHaveBeen) {
  Broker::Limits limits;
  limits.session_numbers = 3;
  BrokerWorld world(limits);
  const Session& lives = world.connect(1000);
  for (int i = 0; i < 10; ++i) {
    const Session& passing = world.connect(1000);
    EXPECT_NE(passing.id, lives.id);
    EXPECT_NE(passing.id, wire::SessionId{0});
    world.broker.exited(passing.id);
  }
  EXPECT_EQ(world.broker.sessions().size(), 1U);
}

// Arrays that fit in a segment that is there take the daemon's heap, and nothing else of memory.
class BrokerHeap : public ::testing::Test {
 protected:
  // No more one of those who have little, with so many arrays less than he may have anyway.
  BrokerHeap() {
    auto large = spec_of("large");
    large.shape = {17 << 20};
    world.create(session, large);
    have(4194 - 100);
  }
  void have(std::uint64_t arrays) {
    others_.give_back(others_had_);
    others_had_ = arrays;
    others_.add_anyway(arrays);
  }
  bool may_create(Session& of) {
    const std::string name = "small/" + std::to_string(next_++);
    const auto status = world.try_create(of, spec_of(name)).status();
    EXPECT_TRUE(status.ok() || code_of(status) == ErrorCode::kOutOfMemory) << status;
    return status.ok();
  }
  // How many more he may have, up to `most`.
  int create_until_refused(int most) {
    int count = 0;
    while (count < most && may_create(session)) ++count;
    return count;
  }

  BrokerWorld world;
  Session& session = world.connect(kUid);

 private:
  int next_ = 0;
  std::uint64_t others_had_ = 0;
  Charge others_ = world.broker.account(kUid).empty_charge(Resource::kArrays);
};

TEST_F(BrokerHeap, GrowsOnlyWhereThereIsRoomBeyondWhatAnybodyMayHave) {
  world.memory.set_room(0);
  const int more = create_until_refused(1000);
  EXPECT_GT(more, 50);
  EXPECT_LT(more, 150);
  world.memory.set_room(UINT64_MAX);
  EXPECT_EQ(create_until_refused(400), 400);
  world.memory.set_room(0);
  EXPECT_LT(create_until_refused(1000), 300) << "some are looked for at once";
}

TEST_F(BrokerHeap, OfThoseWhoHaveLittleGrowsFromWhatIsKeptForThem) {
  world.memory.set_room(0);
  Session& other = world.connect(kUid + 1);
  const auto held = world.broker.account(kUid + 1).charge(Resource::kArrays, 4300);
  EXPECT_TRUE(may_create(other));
  const auto more = world.broker.account(kUid + 1).charge(Resource::kArrays, 7000);
  EXPECT_FALSE(may_create(other)) << "16 MiB are not little";
}

TEST_F(BrokerHeap, WhatComesAndGoesIsNotLookedForAgain) {
  have(20'000);
  ASSERT_TRUE(may_create(session));
  world.memory.set_room(0);
  have(20'000 - 900);
  ASSERT_TRUE(may_create(session));
  have(20'000);
  EXPECT_TRUE(may_create(session));
}

// Else he would grow at first, and fill the memory when he has shrunk.
TEST_F(BrokerHeap, WhatHasGoneLongAgoIsLookedForAgain) {
  have(20'000);
  ASSERT_TRUE(may_create(session));
  world.memory.set_room(0);
  have(10'000);
  ASSERT_TRUE(may_create(session));
  have(20'000);
  EXPECT_FALSE(may_create(session));
}

// Who has the array open goes on, also with files of it that it comes to know.
TEST_F(BrokerHeap, OpensAndNumbersOfFilesCountToo) {
  const auto id = world.create(session, spec_of("a", 0644));
  const auto file = world.broker.catalog().find(id)->slots[0].file;
  world.memory.set_room(0);
  have(20'000);
  EXPECT_TRUE(world.broker.fetch_file(session.id, file, false).ok()) << "that it knows";
  EXPECT_EQ(code_of(world.broker.open(session, "a").status()), ErrorCode::kOutOfMemory);
  have(0);
  EXPECT_TRUE(world.broker.open(session, "a").ok());
  auto numbers = world.broker.account(kUid).charge(Resource::kFileNumbers, 600'000);
  ASSERT_TRUE(numbers.ok());
  EXPECT_EQ(code_of(world.broker.open(session, "a").status()), ErrorCode::kOutOfMemory);
}

}  // namespace
}  // namespace memlease::server
