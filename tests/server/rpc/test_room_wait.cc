// Who is refused room may find it once sessions that have ended are worked off, or what has gone
// has been given back.
#include <memory>
#include <optional>
#include <string>

#include "fmt/format.h"
#include "server/rpc/open_array.h"
#include "tests/server/rpc/services.h"

namespace memlease::testing {
namespace {

class RoomWait : public Services {
 protected:
  // What it had stays on its way.
  void let_go_of(const std::string& name, wire::ArrayId id) {
    host.world.keeps_garbage = true;
    ASSERT_TRUE(host.world.broker.withdraw(session.peer, name).ok());
    ASSERT_TRUE(host.world.broker.leave(session, id, 1).ok());
  }
};

TEST_F(RoomWait, ACreationTakesWhatSessionsThatHaveEndedStillHave) {
  server::Session& dying = host.world.connect(kUser);
  for (int i = 0; i < 100; ++i) host.world.create(dying, spec_of("many/" + std::to_string(i)));
  host.world.broker.exited(dying.id);
  ASSERT_TRUE(host.world.broker.sessions_are_ending());
  server::Broker::Limits limits;
  limits.per_uid.arrays = 1;
  host.world.broker.set_limits(limits, {});
  EXPECT_EQ(user.create(spec_of("a"), &session), "OK");
  EXPECT_FALSE(host.world.broker.sessions_are_ending());
  EXPECT_EQ(user.create(spec_of("b"), &session), "QuotaExceeded");
}

TEST_F(RoomWait, ACreationWaitsUntilWhatHasGoneIsGivenBack) {
  server::Broker::Limits limits;
  limits.memory.memory_bytes = host.world.memory.segment_sizes().first;
  host.world.broker.set_limits(limits, {});
  ASSERT_EQ(user.create(spec_of("a"), &session), "OK");
  const wire::ArrayId id{user.opened.array_id()};
  const auto segment = host.world.broker.catalog().find(id)->slots[0].file;
  auto writer = host.world.broker.fetch_file(session.id, segment, true);
  ASSERT_TRUE(writer.ok() && writer->writable);
  ASSERT_NO_FATAL_FAILURE(let_go_of("a", id));
  EXPECT_EQ(user.create(spec_of("b", 0604), &session), "OutOfMemory");
  EXPECT_EQ(host.awaited, 1);
  writer->fd.reset();
  EXPECT_EQ(user.create(spec_of("b", 0604), &session), "OK");
  EXPECT_EQ(host.awaited, 2) << "whether what was kept is so still";
}

// Whose rows' descriptors are what the caller lacks.
TEST_F(RoomWait, ASubscriptionAndAWriterTakeWhatSessionsThatHaveEndedStillHave) {
  ASSERT_EQ(user.create(spec_of("a"), &session), "OK");
  v1::ArrayRequest array;
  array.set_array_id(user.opened.array_id());
  const auto with_an_end = [&](const auto& call) {
    server::Session& dying = host.world.connect(kUser);
    host.world.subscribe(dying, host.world.open(dying, "a"));
    for (int i = 0; i < 100; ++i) host.world.create(dying, spec_of(fmt::format("many/{}", i)));
    host.world.unmap_pages();
    host.world.broker.exited(dying.id);
    ASSERT_TRUE(host.world.broker.sessions_are_ending());
    server::Broker::Limits limits;
    limits.per_uid.descriptors = host.world.broker.quota().used_by(kUser).descriptors;
    host.world.broker.set_limits(limits, {});
    EXPECT_EQ(call(), "OK");
    EXPECT_FALSE(host.world.broker.sessions_are_ending());
    host.world.broker.set_limits({}, {});
  };
  with_an_end([&] {
    v1::SubscribeReply reply;
    return user.call(&v1::Control::Stub::Subscribe, array, reply, &session);
  });
  server::Session& writer = host.world.connect(kUser);
  host.world.open(writer, "a");
  with_an_end([&] {
    v1::AcquireWriterReply reply;
    return user.call(&v1::Control::Stub::AcquireWriter, array, reply, &writer);
  });
}

TEST_F(RoomWait, MemoryThatTheMachineRefusesIsAwaited) {
  ASSERT_EQ(user.create(spec_of("a"), &session), "OK");
  const wire::ArrayId id{user.opened.array_id()};
  ASSERT_NO_FATAL_FAILURE(let_go_of("a", id));
  ASSERT_NE(host.world.broker.files().going(), 0U);
  host.world.memory.fail_next(2);  // all that would be used later, and what is needed
  EXPECT_EQ(user.create(spec_of("b", 0604), &session), "OK");
  EXPECT_EQ(host.awaited, 1);
  host.world.memory.fail_from(1);
  EXPECT_EQ(user.create(spec_of("c", 0640), &session), "OutOfMemory");
  EXPECT_EQ(host.awaited, 1) << "nothing was on its way";
}

TEST_F(RoomWait, TheDaemonsOwnMemoryIsAwaitedWhileOthersAreCut) {
  ASSERT_EQ(user.create(spec_of("a"), &session), "OK");
  v1::OpenRequest request;
  request.set_name("a");
  const auto by_frame = [&] {
    return server::open_array(host, session.id, request.SerializeAsString());
  };
  host.world.has_memory = false;
  EXPECT_EQ(user.create(spec_of("b"), &session), "OutOfMemory");
  EXPECT_EQ(wire::code_of(by_frame().status()), wire::ErrorCode::kOutOfMemory);
  EXPECT_EQ(host.awaited, 0);
  host.relieving = true;
  const auto opened = by_frame();
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->answer, "") << "a call can wait";
  EXPECT_EQ(user.create(spec_of("b"), &session), "OK");
  EXPECT_EQ(host.awaited, 1);
}

TEST_F(RoomWait, WhatIsKeptForThoseWhoHaveLittleIsTheirs) {
  auto large = spec_of("large", 0600, 1);
  large.shape = {17 << 20};
  ASSERT_EQ(user.create(large, &session), "OK");
  Connection other(host, kStranger);
  server::Session& others = host.world.connect(kStranger);
  host.world.memory.fail_from(1);
  EXPECT_EQ(other.create(spec_of("theirs"), &others), "OutOfMemory");
  host.world.memory.have_reserve();
  EXPECT_EQ(other.create(spec_of("theirs"), &others), "OK") << "with board and takeover page";
  EXPECT_EQ(user.create(spec_of("mine", 0640), &session), "OutOfMemory");
  large.name = "others";
  EXPECT_EQ(other.create(large, &others), "OutOfMemory");
}

// Where a quota refuses, what counts is whose quota that is: not the caller.
TEST_F(RoomWait, ASlotOfAnothersArrayWaitsForItsOwnersMemory) {
  auto spec = spec_of("shared", 0606, 2);
  spec.shape = {1 << 20};  // its slots fill their segment
  spec.max_slots = 3;
  ASSERT_EQ(user.create(spec, &session), "OK");
  const wire::ArrayId shared{user.opened.array_id()};
  auto old_spec = spec_of("old", 0600, 1);
  old_spec.shape = spec.shape;
  ASSERT_EQ(user.create(old_spec, &session), "OK");
  const wire::ArrayId old{user.opened.array_id()};

  server::Session& writing = host.world.connect(kStranger);
  host.world.open(writing, "shared");
  host.world.become_writer(writing, shared);
  wire::ReaderRow& row = host.world.subscribe(writing, shared);
  row.holds()[0].store(1);
  row.holds()[1].store(1);
  ASSERT_NO_FATAL_FAILURE(let_go_of("old", old));
  server::Broker::Limits limits;
  limits.per_uid.descriptors = host.world.broker.quota().used_by(kUser).descriptors;
  host.world.broker.set_limits(limits, {});
  v1::AddSlotRequest request;
  request.set_array_id(wire::to_int(shared));
  request.set_slots(2);
  v1::Empty reply;
  EXPECT_EQ(stranger.call(&v1::Control::Stub::AddSlot, request, reply, &writing), "OK");
  EXPECT_EQ(host.awaited, 1);
}

TEST_F(RoomWait, WhoConnectsWhileHisFilesAreClosedIsToTryAgain) {
  ASSERT_EQ(user.create(spec_of("a"), &session), "OK");
  const wire::ArrayId id{user.opened.array_id()};
  ASSERT_NO_FATAL_FAILURE(let_go_of("a", id));
  server::Broker::Limits limits;
  limits.per_uid.descriptors = host.world.broker.quota().used_by(kUser).descriptors;
  host.world.broker.set_limits(limits, {});
  const auto refused = [&] {
    return wire::code_of(host.world.broker.open_session(session.peer).status());
  };
  EXPECT_EQ(refused(), wire::ErrorCode::kBusy);
  host.world.try_garbage();
  limits.per_uid.descriptors = host.world.broker.quota().used_by(kUser).descriptors;
  host.world.broker.set_limits(limits, {});
  EXPECT_EQ(refused(), wire::ErrorCode::kQuotaExceeded) << "there is nothing to wait for";
}

}  // namespace
}  // namespace memlease::testing
