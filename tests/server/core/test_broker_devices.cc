// Arrays on a device whose work goes on after the call: who may leave, who may write, and what
// stays for as long as somebody has it open.
#include <fcntl.h>
#include <sys/stat.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/core/broker_world.h"
#include "tests/support/fake_gpu.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using testing::BrokerWorld;
using testing::FakeGpu;
using ::testing::HasSubstr;
using testing::spec_of;
using wire::code_of;
using wire::ErrorCode;

class BrokerDevices : public ::testing::Test {
 protected:
  BrokerDevices() { world.broker.add_device(gpu, {}); }

  static wire::ArraySpec on_gpu(const std::string& name) {
    auto spec = spec_of(name, 0600, 2);
    spec.device = "GPU-1";
    return spec;
  }
  wire::ArrayId create(Session& session, const std::string& name) {
    for (;;) {
      auto creation = world.broker.create(session, on_gpu(name), false);
      EXPECT_TRUE(creation.ok()) << creation.status();
      if (auto* opened = std::get_if<Broker::Opened>(&*creation)) return opened->array->id;
      auto& growth = std::get<SegmentPool::Growth>(*creation);
      EXPECT_EQ(growth.device, "GPU-1");
      EXPECT_TRUE(world.broker.add_memory(growth, SegmentPool::make(gpu, growth)).ok());
    }
  }
  // The session becomes the writer, and has versions 1 and 2 in its slots.
  void publish_two(Session& writer, wire::ArrayId id) {
    wire::WriterRow& row = world.become_writer(writer, id);
    row.highest_used.store(2);
    row.slot_words()[0].store(1);
    row.slot_words()[1].store(2);
    row.publication.store(wire::pack({2, 1}));
  }
  // Of the array "a". The memory is in this file.
  wire::FileId open_memory(Session& importer, wire::ArrayId id) {
    world.open(importer, "a");
    const wire::FileId segment = world.broker.catalog().find(id)->slots[0].file;
    EXPECT_TRUE(world.broker.imports().open_memory(importer, segment).ok());
    return segment;
  }
  wire::EventWords& write_event(const Session& session, wire::ArrayId id, std::uint32_t slot) {
    return world.events(session, world.broker.catalog().find(id)->rare().write_events)[slot];
  }
  wire::EventWords& read_event(const Session& session, wire::ArrayId id, std::uint32_t slot) {
    const EventSet events = SessionRows::read_events_of(session, session.memberships.at(id));
    return world.events(session, events)[slot];
  }

  FakeGpu gpu{"GPU-1"};  // outlives the broker's segments
  BrokerWorld world;
};

TEST_F(BrokerDevices, AnUnknownDeviceIsRefusedWithThoseThereAre) {
  Session& session = world.connect(1000);
  auto spec = on_gpu("a");
  spec.device = "GPU-2";
  const auto refused = world.broker.create(session, spec, false);
  EXPECT_EQ(code_of(refused.status()), ErrorCode::kUnsupported);
  EXPECT_THAT(wire::message_of(refused.status()), HasSubstr("GPU-1, host"));
}

TEST_F(BrokerDevices, AnArrayHasAnEventForEachSlotThatItMayHave) {
  Session& session = world.connect(1000);
  const auto id = create(session, "a");
  const Array& array = *world.broker.catalog().find(id);
  EXPECT_FALSE(array.rare().write_events.empty());
  EXPECT_TRUE(array.rare().write_events.all_complete()) << "nobody has recorded anything";
  write_event(session, id, 1).recorded.store(1);
  EXPECT_TRUE(array.rare().write_events.complete(0));
  EXPECT_FALSE(array.rare().write_events.complete(1));
  write_event(session, id, 1).complete.store(1);
  EXPECT_TRUE(array.rare().write_events.all_complete());
}

// A stream may still be about to wait for what was recorded there.
TEST_F(BrokerDevices, WordsOfAnArrayThatHasGoneCountOnInTheNextOne) {
  Session& session = world.connect(1000);
  create(session, "keeper");  // keeps the page
  const auto first = create(session, "a");
  wire::EventWords& event = write_event(session, first, 1);
  event.recorded.store(7);
  event.complete.store(7);
  EXPECT_TRUE(world.broker.withdraw(session.peer, "a").ok());
  EXPECT_TRUE(world.broker.leave(session, first, 1).ok());
  const auto next = create(session, "b");
  EXPECT_EQ(&write_event(session, next, 1), &event);
  EXPECT_EQ(event.complete.load(), 7U);
  EXPECT_TRUE(world.broker.catalog().find(next)->rare().write_events.all_complete());
}

// Else whoever may only read could say that what others wrote is complete.
TEST_F(BrokerDevices, OnlyWhoMayWriteTheArrayMayRecordItsEvents) {
  Session& owner = world.connect(1000);
  Session& reader = world.connect(1001);
  auto spec = on_gpu("a");
  spec.mode = 0644;
  auto created = world.broker.create(owner, spec, false);
  auto& growth = std::get<SegmentPool::Growth>(*created);
  ASSERT_TRUE(world.broker.add_memory(growth, SegmentPool::make(gpu, growth)).ok());
  ASSERT_TRUE(world.broker.create(owner, spec, false).ok());
  const auto id = world.open(reader, "a");
  const wire::FileId file = world.broker.catalog().find(id)->rare().write_events.at().file;
  EXPECT_TRUE(world.broker.fetch_file(owner.id, file)->writable);
  const auto read = world.broker.fetch_file(reader.id, file);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->kind, wire::FileKind::kEvents);
  EXPECT_FALSE(read->writable);
}

TEST_F(BrokerDevices, ItsMemoryTakesNoDescriptors) {
  Session& session = world.connect(1000);
  create(session, "a");
  Broker::Limits limits;
  limits.per_uid.descriptors = world.broker.quota().used_by(1000).descriptors;
  world.broker.set_limits(limits, {});
  auto large = on_gpu("b");
  large.shape = {1 << 20};
  auto growth = world.broker.create(session, large, false);
  ASSERT_TRUE(growth.ok()) << growth.status();
  auto& missing = std::get<SegmentPool::Growth>(*growth);
  EXPECT_TRUE(world.broker.add_memory(missing, SegmentPool::make(gpu, missing)).ok());
  EXPECT_TRUE(world.broker.create(session, large, false).ok());
}

TEST_F(BrokerDevices, ItsLimitsAreApartFromTheHosts) {
  FakeGpu limited("GPU-2");
  BrokerWorld limited_world{{{}, {1000, 0, 0}}};
  const std::uint64_t bytes = limited.alignment_bytes(wire::size_bytes_of(on_gpu("a"))) * 2;
  limited_world.broker.add_device(limited,
                                  {{2 << 20, 0, "gpu_memory_limit_bytes"}, bytes, "gpu_quota_"});
  Session& session = limited_world.connect(1000);
  const auto create = [&](const std::string& name, std::int64_t rows) {
    auto spec = on_gpu(name);
    spec.device = "GPU-2";
    spec.shape[0] = rows;
    return limited_world.broker.create(session, spec, false);
  };
  auto first = create("a", 4);
  ASSERT_TRUE(first.ok()) << first.status();
  auto& growth = std::get<SegmentPool::Growth>(*first);
  EXPECT_EQ(growth.size_bytes, 2U << 20);  // all that it may take
  EXPECT_TRUE(limited_world.broker.add_memory(growth, SegmentPool::make(limited, growth)).ok());
  EXPECT_TRUE(create("a", 4).ok());
  EXPECT_EQ(limited_world.broker.host().quota.used_by(1000).bytes, 0U);
  const auto more = create("b", 1);
  EXPECT_EQ(code_of(more.status()), ErrorCode::kQuotaExceeded);
  EXPECT_THAT(wire::hint_of(more.status()), HasSubstr("gpu_quota_bytes"));
  EXPECT_THAT(wire::message_of(more.status()), HasSubstr("bytes on GPU-2"));
  // The host's quota counts what is there alone, and so does the other way round.
  EXPECT_TRUE(limited_world.try_create(session, spec_of("c")).ok());
  EXPECT_TRUE(limited_world.broker.withdraw(session.peer, "a").ok());
}

TEST_F(BrokerDevices, BeyondItsMemoryLimitThereIsNoArray) {
  FakeGpu limited("GPU-2");
  BrokerWorld limited_world;
  limited_world.broker.add_device(limited,
                                  {{1 << 20, 0, "gpu_memory_limit_bytes"}, 0, "gpu_quota_"});
  auto spec = on_gpu("a");
  spec.device = "GPU-2";
  spec.shape = {2 << 20};
  const auto refused =
      limited_world.broker.create(limited_world.connect(1000), spec, false).status();
  EXPECT_EQ(code_of(refused), ErrorCode::kOutOfMemory);
  EXPECT_THAT(wire::hint_of(refused), HasSubstr("gpu_memory_limit_bytes"));
  EXPECT_THAT(wire::message_of(refused), HasSubstr("do not fit on GPU-2"));
}

TEST_F(BrokerDevices, AReadersRowKeepsItsEvents) {
  Session& session = world.connect(1000);
  const auto id = create(session, "a");
  const auto first = world.broker.subscribe(session, id);
  ASSERT_TRUE(first.ok());
  read_event(session, id, 0).recorded.store(1);
  read_event(session, id, 0).complete.store(1);
  EXPECT_TRUE(world.broker.leave(session, id, 1).ok());
  world.open(session, "a");
  const auto again = world.broker.subscribe(session, id);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->row, first->row);
  EXPECT_EQ(read_event(session, id, 0).recorded.load(), 1U) << "it counts on from there";
}

TEST_F(BrokerDevices, HostArraysHaveNoEvents) {
  Session& session = world.connect(1000);
  const auto id = world.create(session, spec_of("h"));
  ASSERT_TRUE(world.broker.subscribe(session, id).ok());
  EXPECT_TRUE(world.broker.catalog().find(id)->rare().write_events.empty());
  EXPECT_TRUE(SessionRows::read_events_of(session, session.memberships.at(id)).empty());
}

// R-SYNC-10: a call that says so says nothing of the GPU.
TEST_F(BrokerDevices, NobodyLeavesWhoseReadsTheGpuHasNotFinished) {
  Session& session = world.connect(1000);
  const auto id = create(session, "a");
  ASSERT_TRUE(world.broker.subscribe(session, id).ok());
  read_event(session, id, 1).recorded.store(1);
  EXPECT_EQ(code_of(world.broker.leave(session, id, 1)), ErrorCode::kBusy);
  read_event(session, id, 1).complete.store(1);
  EXPECT_TRUE(world.broker.leave(session, id, 1).ok());
}

TEST_F(BrokerDevices, TheRightMovesWhenAllThatWasWrittenIsComplete) {
  Session& one = world.connect(1000);
  Session& other = world.connect(1000);
  const auto id = create(one, "a");
  world.open(other, "a");
  world.become_writer(one, id);
  write_event(one, id, 0).recorded.store(1);
  EXPECT_EQ(world.broker.acquire_writer(other, id)->state, WriterAnswer::State::kBusy);
  write_event(one, id, 0).complete.store(1);
  EXPECT_EQ(world.broker.acquire_writer(other, id)->state, WriterAnswer::State::kOffered);
}

// R-SYNC-11: the daemon says that its records are complete.
TEST_F(BrokerDevices, ADeadWritersIncompleteVersionIsPoisonedAndItsWaitersGoOn) {
  Session& keeper = world.connect(1000);
  Session& writer = world.connect(1000);
  const auto id = create(keeper, "a");
  world.open(writer, "a");
  publish_two(writer, id);
  write_event(writer, id, 1).recorded.store(1);
  world.broker.hang_up(writer.id, Farewell::kNone);
  world.broker.exited(writer.id);
  const Array& array = *world.broker.catalog().find(id);
  EXPECT_EQ(array.board->poisoned()[1].load(), 2U);
  EXPECT_EQ(wire::unpack_publication(array.takeover->publication.load()).version, 1U);
  EXPECT_TRUE(array.rare().write_events.all_complete());
  EXPECT_EQ(write_event(keeper, id, 1).complete.load(), 1U);
}

// Whose work goes on may not leave; whose GPU has failed has none.
TEST_F(BrokerDevices, AVersionThatItsWriterHasLostIsPoisonedWhenThatLeaves) {
  Session& keeper = world.connect(1000);
  Session& writer = world.connect(1000);
  const auto id = create(keeper, "a");
  world.open(writer, "a");
  publish_two(writer, id);
  wire::EventWords& event = write_event(writer, id, 1);
  event.recorded.store(1);
  EXPECT_FALSE(world.broker.leave(writer, id, 1).ok());
  event.complete.store(1 | wire::EventWords::kLost);
  EXPECT_EQ(world.broker.acquire_writer(keeper, id)->state, WriterAnswer::State::kBusy);
  EXPECT_TRUE(world.broker.leave(writer, id, 1).ok());
  const Array& array = *world.broker.catalog().find(id);
  EXPECT_EQ(array.board->poisoned()[1].load(), 2U);
  EXPECT_EQ(wire::unpack_publication(array.takeover->publication.load()).version, 1U);
  EXPECT_EQ(event.complete.load(), 1U);
  EXPECT_EQ(world.broker.acquire_writer(keeper, id)->state, WriterAnswer::State::kOffered);
}

// R-SYNC-11: writers' streams may wait for its reads.
TEST_F(BrokerDevices, ADeadReadersReadsAreOver) {
  Session& keeper = world.connect(1000);
  Session& reader = world.connect(1000);
  const auto id = create(keeper, "a");
  world.open(reader, "a");
  ASSERT_TRUE(world.broker.subscribe(reader, id).ok());
  wire::EventWords& event = read_event(reader, id, 1);
  event.recorded.store(3);
  event.complete.store(2);
  world.broker.hang_up(reader.id, Farewell::kNone);
  EXPECT_EQ(event.complete.load(), 2U) << "its work may go on";
  world.broker.exited(reader.id);
  EXPECT_EQ(event.complete.load(), 3U);
}

// A stream may wait for one of its events for longer.
TEST_F(BrokerDevices, ADeadReadersPageWithEventsStaysWithWhoeverHasItOpen) {
  Session& keeper = world.connect(1000);
  Session& reader = world.connect(1000);
  const auto id = create(keeper, "a");
  world.open(reader, "a");
  const auto subscribed = world.broker.subscribe(reader, id);
  ASSERT_TRUE(subscribed.ok());
  auto grant = world.broker.fetch_file(reader.id, subscribed->row.file);
  ASSERT_TRUE(grant.ok());
  const std::string path = "/proc/self/fd/" + std::to_string(grant->fd.get());
  const wire::UniqueFd of_reader(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  grant->fd.reset();
  world.broker.exited(reader.id);
  struct stat info{};
  ASSERT_EQ(::fstat(of_reader.get(), &info), 0);
  EXPECT_GT(info.st_blocks, 0);
}

// The daemon does not see whether the driver has let go.
TEST_F(BrokerDevices, AnotherProgramInItsProcessEndsNothingWhereItHasUsedAGpu) {
  Session& writer = world.connect(1000);
  const auto id = create(writer, "a");
  world.become_writer(writer, id).writing.store(1);
  world.broker.hang_up(writer.id, Farewell::kNone);
  EXPECT_FALSE(world.broker.program_replaced(writer.id));
  EXPECT_NE(world.broker.catalog().find(id), nullptr);
  world.broker.exited(writer.id);
  EXPECT_TRUE(world.broker.idle());
}

// R-SYNC-10: until the last one has closed it.
TEST_F(BrokerDevices, WhatAnImporterHasOpenOutlivesItsOwner) {
  Session& owner = world.connect(1000);
  Session& importer = world.connect(1000);
  const auto id = create(owner, "a");
  const wire::FileId segment = open_memory(importer, id);

  world.broker.hang_up(owner.id, Farewell::kNone);
  world.broker.exited(owner.id);  // withdraws the array; nothing is kept warm
  EXPECT_TRUE(world.broker.leave(importer, id, 1).ok());
  EXPECT_EQ(gpu.segments, 1);
  world.broker.imports().close_memory(importer, segment);
  EXPECT_EQ(gpu.segments, 0);
}

TEST_F(BrokerDevices, AnExitClosesWhatItsProcessHadOpen) {
  Session& owner = world.connect(1000);
  Session& importer = world.connect(1000);
  const auto id = create(owner, "a");
  open_memory(importer, id);
  for (Session* session : {&owner, &importer}) {
    const wire::SessionId ending = session->id;
    world.broker.hang_up(ending, Farewell::kNone);
    world.broker.exited(ending);
  }
  EXPECT_EQ(gpu.segments, 0);
}

// A stream of its own may use it still: CUDA would have to wait for that to close it.
TEST_F(BrokerDevices, WhoSaysGoodbyeWithMemoryOpenEndsWithItsProcess) {
  Session& owner = world.connect(1000);
  Session& importer = world.connect(1000);
  const auto id = create(owner, "a");
  open_memory(importer, id);
  ASSERT_TRUE(world.broker.leave(importer, id, 1).ok());
  const wire::SessionId ending = importer.id;
  EXPECT_TRUE(world.broker.hang_up(ending, Farewell::kGoodbye)) << "its process is watched";
  world.broker.hang_up(owner.id, Farewell::kNone);
  world.broker.exited(owner.id);
  EXPECT_EQ(gpu.segments, 1);
  world.broker.exited(ending);
  EXPECT_EQ(gpu.segments, 0);
}

TEST_F(BrokerDevices, OnlyWhoMayReadMayImport) {
  Session& owner = world.connect(1000);
  Session& stranger = world.connect(1001);
  const auto id = create(owner, "a");
  const wire::FileId segment = world.broker.catalog().find(id)->slots[0].file;
  const Imports& imports = world.broker.imports();
  EXPECT_EQ(code_of(imports.open_memory(stranger, segment).status()), ErrorCode::kNotFound);
}

// The daemon calls the broker under its mutex, and a device that destroys something may wait.
class BrokerGarbage : public BrokerDevices {
 protected:
  BrokerGarbage() { world.keeps_garbage = true; }
  // That calls of the broker have let go of this many segments, but destroyed nothing.
  void expect_disposed(int segments) {
    EXPECT_EQ(gpu.segments, segments);
    world.try_garbage();
    EXPECT_EQ(gpu.segments, 0);
  }
  Broker::Subscribed subscribe(Session& session, wire::ArrayId id) {
    return world.broker.subscribe(session, id).value();
  }
};

TEST_F(BrokerGarbage, HasWhatALastMemberLeaves) {
  Session& session = world.connect(1000);
  const auto id = create(session, "a");
  EXPECT_TRUE(world.broker.withdraw(session.peer, "a").ok());
  EXPECT_TRUE(world.broker.leave(session, id, 1).ok());
  expect_disposed(1);
}

TEST_F(BrokerGarbage, HasWhatAProcessLeavesThatExits) {
  Session& session = world.connect(1000);
  subscribe(session, create(session, "a"));
  world.broker.hang_up(session.id, Farewell::kNone);
  world.broker.exited(session.id);
  expect_disposed(1);
}

}  // namespace
}  // namespace memlease::server
