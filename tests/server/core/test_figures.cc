// Sums for the metrics: what they add up, and that counts never go back, whatever comes and goes,
// and whatever clients write into their pages.
#include <string>

#include "gtest/gtest.h"
#include "server/core/figures.h"
#include "server/core/report.h"
#include "tests/server/core/broker_world.h"
#include "tests/support/fake_gpu.h"

namespace memlease::server {
namespace {

using testing::BrokerWorld;
using testing::spec_of;
using wire::ArrayId;

class FiguresTest : public ::testing::Test {
 protected:
  Figures collect() {
    FigureCollector collector;
    collector.begin(world_.broker);
    while (collector.step(world_.broker)) ++steps_;
    return collector.take();
  }
  const DeviceFigures& host() { return (figures_ = collect()).devices.at("host"); }
  static void publish(wire::WriterRow& row, std::uint64_t version) {
    row.slot_words()[0].store(version);
    row.publication.store(wire::pack({version, 0}));
    row.highest_used.store(version);
  }
  // The counts of a session, as its process writes them.
  wire::SessionCounts& counts_of(Session& session) {
    const wire::FileId file = session.pages.begin()->second->files().front();
    return *reinterpret_cast<wire::SessionCounts*>(&world_.writer_row(session, {file, 0}));
  }

  testing::FakeGpu gpu_{"GPU-1"};
  BrokerWorld world_;
  Figures figures_;
  int steps_ = 0;
};

TEST_F(FiguresTest, AnIdleDaemonHasNoneButItsHost) {
  EXPECT_EQ(host().arrays, 0U);
  EXPECT_EQ(figures_.devices.size(), 1U);
  EXPECT_EQ(figures_.totals.versions, 0U);
}

TEST_F(FiguresTest, ArraysCountByDeviceAndState) {
  world_.broker.add_device(gpu_, {});
  Session& session = world_.connect(1000);
  const ArrayId id = world_.create(session, spec_of("a"));
  world_.create(session, spec_of("b"));
  EXPECT_EQ(host().arrays, 2U);
  EXPECT_EQ(figures_.devices.at("host").array_bytes, 2 * 3 * 128U);
  EXPECT_EQ(figures_.devices.at("host").used_bytes, 2 * 3 * 256U) << "whole places";
  EXPECT_EQ(figures_.devices.at("GPU-1").arrays, 0U);
  world_.become_writer(session, id).writing.store(1);
  ASSERT_TRUE(world_.broker.withdraw(testing::peer_of(1000), "a").ok());
  EXPECT_EQ(host().arrays, 1U);
  EXPECT_EQ(figures_.devices.at("host").withdrawn_arrays, 1U);
  EXPECT_EQ(figures_.devices.at("host").withdrawn_bytes, 3 * 128U);
  EXPECT_EQ(figures_.writes_in_progress, 1U);
}

TEST_F(FiguresTest, ASlotThatTwoReadersHoldIsHeldOnce) {
  Session& writer = world_.connect(1000);
  const ArrayId id = world_.create(writer, spec_of("a", 0666));
  for (const uid_t uid : {1001U, 1002U}) {
    Session& reader = world_.connect(uid);
    world_.open(reader, "a");
    wire::ReaderRow& row = world_.subscribe(reader, id);
    row.holds()[1].store(2);
    if (uid == 1002) row.holds()[2].store(1);
  }
  EXPECT_EQ(host().held_slots, 2U);
  EXPECT_EQ(figures_.devices.at("host").held_bytes, 2 * 128U);
}

TEST_F(FiguresTest, SessionsAreConnectedOrLeaving) {
  Session& session = world_.connect(1000);
  world_.connect(1001);
  world_.create(session, spec_of("a"));
  world_.broker.hang_up(session.id, Farewell::kNone);
  host();
  EXPECT_EQ(figures_.sessions_connected, 1U);
  EXPECT_EQ(figures_.sessions_leaving, 1U);
  EXPECT_EQ(figures_.totals.sessions_opened, 2U);
}

TEST_F(FiguresTest, VersionsOfAnArrayCountAfterItsEnd) {
  Session& session = world_.connect(1000);
  const ArrayId id = world_.create(session, spec_of("a"));
  wire::WriterRow& row = world_.become_writer(session, id);
  publish(row, 5);
  EXPECT_EQ(collect().totals.versions, 5U);
  publish(row, 7);
  world_.broker.exited(session.id);
  EXPECT_EQ(world_.broker.catalog().size(), 0U);
  EXPECT_EQ(collect().totals.versions, 7U);
}

TEST_F(FiguresTest, EmptyWritesCountAcrossWritersAndAfterTheEndOfAnArray) {
  Session& one = world_.connect(1000);
  Session& other = world_.connect(1000);
  const ArrayId id = world_.create(one, spec_of("a"));
  wire::WriterRow& row = world_.become_writer(one, id);
  publish(row, 5);
  row.empty_writes.store(2);
  EXPECT_EQ(collect().totals.empty_writes, 2U);
  world_.open(other, "a");
  ASSERT_TRUE(world_.broker.leave(one, id, 1).ok());
  const Array& array = *world_.broker.catalog().find(id);
  EXPECT_EQ(report_of(world_.broker, array).empty_writes, 2U) << "what its writer left behind";
  wire::WriterRow& next = world_.become_writer(other, id);
  next.empty_writes.store(3);
  world_.broker.exited(one.id);
  world_.broker.exited(other.id);
  EXPECT_EQ(world_.broker.catalog().size(), 0U);
  EXPECT_EQ(collect().totals.empty_writes, 3U);
}

TEST_F(FiguresTest, CopiesCountAcrossCopiersAndAfterTheEndOfAReplica) {
  Session& one = world_.connect(1000);
  Session& other = world_.connect(1000);
  const ArrayId id = world_.create(one, spec_of("a"));
  const std::uint64_t slot_bytes = world_.broker.catalog().find(id)->slot_bytes;
  wire::WriterRow& row = world_.become_writer(one, id);
  publish(row, 5);
  row.copied_versions.store(2);
  EXPECT_EQ(collect().totals.copied_versions, 2U);
  EXPECT_EQ(collect().totals.copied_bytes, 2 * slot_bytes);
  world_.open(other, "a");
  ASSERT_TRUE(world_.broker.leave(one, id, 1).ok());
  const Array& array = *world_.broker.catalog().find(id);
  EXPECT_EQ(report_of(world_.broker, array).copied_versions, 2U) << "what its copier left behind";
  wire::WriterRow& next = world_.become_writer(other, id);
  next.copied_versions.store(3);
  world_.broker.exited(one.id);
  world_.broker.exited(other.id);
  EXPECT_EQ(world_.broker.catalog().size(), 0U);
  EXPECT_EQ(collect().totals.copied_versions, 3U);
  EXPECT_EQ(collect().totals.copied_bytes, 3 * slot_bytes);
}

TEST_F(FiguresTest, BytesOfCopiesThatNobodyMadeNeverGoBack) {
  Session& session = world_.connect(1000);
  const ArrayId id = world_.create(session, spec_of("a"));
  wire::WriterRow& row = world_.become_writer(session, id);
  publish(row, 5);
  std::uint64_t before = 0;
  for (std::uint64_t lies = 1; lies < 100; ++lies) {
    row.copied_versions.store(lies << 45);
    const std::uint64_t bytes = collect().totals.copied_bytes;
    EXPECT_GE(bytes, before);
    before = bytes;
  }
}

TEST_F(FiguresTest, AVersionThatGoesBackOrLeapsIsNotBelieved) {
  Session& session = world_.connect(1000);
  const ArrayId id = world_.create(session, spec_of("a"));
  wire::WriterRow& row = world_.become_writer(session, id);
  publish(row, 5);
  EXPECT_EQ(collect().totals.versions, 5U);
  publish(row, 2);
  EXPECT_EQ(collect().totals.versions, 5U);
  publish(row, wire::kLastVersion);
  EXPECT_EQ(collect().totals.versions, 5U);
}

TEST_F(FiguresTest, WhatProcessesCountIsAddedUpAndOutlivesThem) {
  Session& one = world_.connect(1000);
  Session& other = world_.connect(1001);
  for (Session* session : {&one, &other}) {
    const ArrayId id = world_.create(*session, spec_of("a" + std::to_string(session->peer.uid)));
    world_.subscribe(*session, id);
    wire::SessionCounts& counts = counts_of(*session);
    counts.versions_skipped.store(3);
    wire::count_wait(counts.slot_waits, std::chrono::milliseconds(50));
    wire::count_wait(counts.slot_waits, std::chrono::hours(1));
  }
  const auto expect_sums = [](const wire::SessionSums& sums) {
    EXPECT_EQ(sums.versions_skipped, 6U);
    EXPECT_EQ(sums.slot_waits.buckets[3], 2U) << "up to 100 ms";
    EXPECT_EQ(sums.slot_waits.buckets[6], 2U) << "beyond the last bound";
    EXPECT_EQ(sums.slot_waits.total_us, 2U * (50'000 + 3'600'000'000));
  };
  expect_sums(collect().totals.sessions);
  expect_sums(collect().totals.sessions);
  counts_of(one).versions_skipped.store(0);  // a lie
  world_.broker.exited(one.id);
  world_.broker.exited(other.id);
  expect_sums(collect().totals.sessions);
}

TEST_F(FiguresTest, ReclaimsCountByReason) {
  Session& session = world_.connect(1000);
  const ArrayId id = world_.create(session, spec_of("a"));
  world_.create(session, spec_of("b"));
  world_.become_writer(session, id).writing.store(1);
  world_.broker.exited(session.id);
  const Totals totals = collect().totals;
  EXPECT_EQ(totals.reclaims.at("was writing").arrays, 1U);
  EXPECT_EQ(totals.reclaims.at("was writing").bytes, 3 * 128U);
  EXPECT_EQ(totals.reclaims.at("created it").arrays, 1U);
  EXPECT_EQ(totals.reclaims.at("held a slot").arrays, 0U);
  EXPECT_EQ(totals.arrays_created, 2U);
}

TEST_F(FiguresTest, ManyArraysAreCollectedInManySteps) {
  Session& session = world_.connect(1000);
  for (int i = 0; i < 1000; ++i) world_.create(session, spec_of("a" + std::to_string(i)));
  EXPECT_EQ(host().arrays, 1000U);
  EXPECT_GE(steps_, 7);
}

TEST_F(FiguresTest, WhatGoesBetweenTwoStepsIsLeftOut) {
  Session& session = world_.connect(1000);
  for (int i = 0; i < 300; ++i) world_.create(session, spec_of("a" + std::to_string(i)));
  FigureCollector collector;
  collector.begin(world_.broker);
  ASSERT_TRUE(collector.step(world_.broker));
  world_.broker.exited(session.id);
  while (world_.broker.work_off_ends()) continue;
  while (collector.step(world_.broker)) continue;
  const Figures figures = collector.take();
  EXPECT_LT(figures.devices.at("host").arrays, 300U);
  EXPECT_EQ(figures.sessions_connected, 0U);
}

}  // namespace
}  // namespace memlease::server
