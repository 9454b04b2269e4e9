// What the services want of the daemon around the core, and for whom: over a channel without
// sockets, to a fake.
#include <gmock/gmock.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "tests/server/rpc/services.h"
#include "tests/support/thread_names.h"

namespace memlease::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_F(Services, MemoryForAnArrayIsMadeBesideTheCore) {
  EXPECT_EQ(user.create(spec_of("a"), &session), "OK");
  EXPECT_EQ(host.grown, 1);
  EXPECT_TRUE(user.opened.created());
  EXPECT_EQ(user.opened.slots_size(), 3);
  EXPECT_EQ(user.create(spec_of("b"), &session), "OK");
  EXPECT_EQ(host.grown, 1) << "there was room for it";
}

TEST_F(Services, ABatchOfDeparturesSaysFirstWhatIsWorthAskingAgain) {
  ASSERT_EQ(user.create(spec_of("a"), &session), "OK");
  const wire::ArrayId id{user.opened.array_id()};
  host.world.subscribe(session, id).holds()[0].store(1);
  v1::LeaveRequest request;
  v1::Empty reply;
  const auto leave = [&](std::uint64_t number) {
    v1::Departure& departure = *request.add_departures();
    departure.set_array_id(wire::to_int(id));
    departure.set_opens(1);
    departure.set_number(number);
    return user.call(&v1::Control::Stub::Leave, request, reply, &session);
  };
  EXPECT_EQ(leave(UINT64_MAX), "InvalidArgument");
  EXPECT_EQ(leave(1), "Busy");
  EXPECT_EQ(leave(UINT64_MAX), "Busy");
}

TEST_F(Services, ALookForANameSaysWhereItsCreationIsCounted) {
  v1::LookUpRequest request;
  request.set_name("a");
  const auto look = [&](bool to_wait) {
    request.set_to_wait(to_wait);
    v1::LookUpReply reply;
    EXPECT_EQ(user.call(&v1::Control::Stub::LookUp, request, reply, &session), "OK");
    return reply;
  };
  EXPECT_FALSE(look(false).has_count_at());
  const v1::LookUpReply before = look(true);
  EXPECT_FALSE(before.exists());
  EXPECT_NE(before.count_at().file_id(), 0U);
  EXPECT_EQ(look(true).count(), before.count());
  EXPECT_EQ(user.create(spec_of("a"), &session), "OK");
  EXPECT_TRUE(look(true).exists());
  EXPECT_FALSE(look(true).has_count_at());
  ASSERT_TRUE(host.world.broker.withdraw(session.peer, "a").ok());
  EXPECT_NE(look(true).count(), before.count());
}

TEST_F(Services, AGpuIsLookedForAtItsFirstArray) {
  EXPECT_EQ(user.create(on_gpu("a"), &session), "OK");
  EXPECT_EQ(user.create(on_gpu("b"), &session), "OK");
  EXPECT_THAT(host.prepared, ElementsAre("GPU-1"));
  EXPECT_NE(user.opened.events().file_id(), 0U);
}

TEST_F(Services, NobodyWithoutASessionMakesTheDaemonLookForGpus) {
  EXPECT_EQ(user.create(on_gpu("a"), nullptr), "Denied");
  EXPECT_EQ(stranger.create(on_gpu("a"), &session), "Denied") << "it is not his";
  EXPECT_THAT(host.prepared, IsEmpty());
}

TEST_F(Services, ADeviceThatThereIsNotIsTheErrorOfTheCall) {
  auto spec = on_gpu("a");
  spec.device = "GPU-2";
  EXPECT_EQ(user.create(spec, &session), "Unsupported");
  EXPECT_FALSE(host.world.broker.exists(peer_of(kUser), "a"));
}

TEST_F(Services, OnlyTheConnectionOfWhoMayBeEvictedIsEnded) {
  EXPECT_EQ(stranger.evict(session), "NotFound");
  EXPECT_THAT(host.evicted, IsEmpty());
  EXPECT_EQ(user.evict(session), "OK");
  EXPECT_THAT(host.evicted, ElementsAre(session.id));
}

TEST_F(Services, AnswersThatAreErrorsAreCountedByCode) {
  v1::Empty reply;
  v1::NameRequest unknown;
  unknown.set_name("there/is/none");
  EXPECT_EQ(user.call(&v1::Control::Stub::Withdraw, unknown, reply, &session), "NotFound");
  EXPECT_EQ(stranger.evict(session), "NotFound");
  EXPECT_EQ(user.create(spec_of("a"), nullptr), "Denied");
  EXPECT_EQ(user.create(spec_of("a"), &session), "OK");
  EXPECT_EQ(host.errors.of(wire::ErrorCode::kNotFound), 2U);
  EXPECT_EQ(host.errors.of(wire::ErrorCode::kDenied), 1U);
  EXPECT_EQ(host.errors.of(wire::ErrorCode::kInternal), 0U);
}

TEST_F(Services, AnOpenSubscribesWhereItIsAskedTo) {
  ASSERT_EQ(user.create(spec_of("a"), &session), "OK");
  v1::OpenRequest request;
  request.set_name("a");
  v1::OpenReply plain;
  EXPECT_EQ(user.call(&v1::Control::Stub::Open, request, plain, &session), "OK");
  EXPECT_FALSE(plain.has_subscribed() || plain.has_writer());
  request.set_subscribe(true);
  v1::OpenReply opened;
  EXPECT_EQ(user.call(&v1::Control::Stub::Open, request, opened, &session), "OK");
  v1::ArrayRequest array;
  array.set_array_id(opened.array_id());
  v1::SubscribeReply subscribed;
  EXPECT_EQ(user.call(&v1::Control::Stub::Subscribe, array, subscribed, &session), "OK");
  EXPECT_EQ(wire::from_proto(opened.subscribed().row()), wire::from_proto(subscribed.row()));
  v1::AcquireWriterReply asked;
  EXPECT_EQ(user.call(&v1::Control::Stub::AcquireWriter, array, asked, &session), "OK");
  EXPECT_EQ(wire::from_proto(opened.writer()), wire::from_proto(asked.from()));
}

TEST_F(Services, AttributesAreForWhoeverMayReadTheArray) {
  const wire::Attributes attributes = {{"units", "K"}};
  v1::CreateRequest request;
  *request.mutable_spec() = wire::to_proto(spec_of("a"));
  *request.mutable_attributes() = wire::to_proto(attributes);
  EXPECT_EQ(user.call(&v1::Control::Stub::Create, request, user.opened, &session), "OK");
  EXPECT_EQ(wire::from_proto(user.opened.attributes()).value(), attributes);

  v1::ListArraysRequest all;
  v1::ListArraysReply listed;
  EXPECT_EQ(user.call(&v1::Admin::Stub::ListArrays, all, listed), "OK");
  ASSERT_EQ(listed.arrays_size(), 1);
  EXPECT_EQ(listed.arrays(0).attributes_size(), 0) << "they may be long, and were not asked for";
  all.set_attributes(true);
  EXPECT_EQ(user.call(&v1::Admin::Stub::ListArrays, all, listed), "OK");
  ASSERT_EQ(listed.arrays_size(), 1);
  EXPECT_EQ(wire::from_proto(listed.arrays(0).attributes()).value(), attributes);
  EXPECT_EQ(stranger.call(&v1::Admin::Stub::ListArrays, all, listed), "OK");
  EXPECT_EQ(listed.arrays_size(), 0);
}

TEST_F(Services, ListsComeInPagesThatArriveWhateverIsInThem) {
  constexpr int kArrays = 40;
  // More than gRPC lets through at once.
  const auto attributes = std::make_shared<const wire::Attributes>(
      wire::Attributes{{"text", std::string(wire::kMaxAttributeBytes - 100, 'x')}});
  std::vector<std::string> names;
  for (int i = 0; i < kArrays; ++i) {
    names.push_back(fmt::format("u/{:02}", i));
    ASSERT_TRUE(
        host.world.try_create(session, spec_of(names.back(), 0600, 1), false, attributes).ok());
  }
  v1::ListArraysRequest request;
  request.set_attributes(true);
  std::vector<std::string> listed;
  int pages = 0;
  do {
    v1::ListArraysReply page;
    ASSERT_EQ(user.call(&v1::Admin::Stub::ListArrays, request, page), "OK");
    for (const v1::ArrayInfo& array : page.arrays()) listed.push_back(array.spec().name());
    EXPECT_LT(page.ByteSizeLong(), std::size_t{100} << 10);
    request.set_from(page.next());
    ++pages;
  } while (!request.from().empty());
  EXPECT_EQ(listed, names);
  EXPECT_EQ(pages, 20) << "of two arrays";

  v1::ListHoldersRequest holders;
  v1::HoldersReply held;
  EXPECT_EQ(user.call(&v1::Admin::Stub::ListHolders, holders, held), "OK");
  EXPECT_EQ(held.holders_size(), kArrays);
  holders.set_from(names[kArrays - 3]);
  EXPECT_EQ(user.call(&v1::Admin::Stub::ListHolders, holders, held), "OK");
  EXPECT_EQ(held.holders_size(), 2);
  EXPECT_EQ(held.next(), "");
}

TEST_F(Services, NamesComeInPages) {
  constexpr int kMany = 8192 + 10;
  for (int i = 0; i < kMany; ++i) {
    host.world.create(session, spec_of(fmt::format("u/{:05}", i), 0600, 1));
  }
  v1::ListRequest request;
  v1::ListReply page;
  ASSERT_EQ(user.call(&v1::Control::Stub::List, request, page, &session), "OK");
  EXPECT_EQ(page.names_size(), 8192);
  EXPECT_EQ(page.next(), page.names(8191));
  request.set_from(page.next());
  ASSERT_EQ(user.call(&v1::Control::Stub::List, request, page, &session), "OK");
  ASSERT_EQ(page.names_size(), 10);
  EXPECT_EQ(page.names(0), "u/08192");
  EXPECT_EQ(page.next(), "");
}

TEST_F(Services, APageOfLongNamesIsShort) {
  constexpr int kMany = 3000;
  for (int i = 0; i < kMany; ++i) {
    host.world.create(session, spec_of(fmt::format("{:0>200}", i), 0600, 1));
  }
  v1::ListRequest request;
  int names = 0;
  do {
    v1::ListReply page;
    ASSERT_EQ(user.call(&v1::Control::Stub::List, request, page, &session), "OK");
    EXPECT_LT(page.ByteSizeLong(), 128U << 10);
    names += page.names_size();
    request.set_from(page.next());
  } while (!request.from().empty());
  EXPECT_EQ(names, kMany);
}

TEST_F(Services, AListOfArraysLeavesTheCoreToOthersInBetween) {
  for (int i = 0; i < 300; ++i) {
    host.world.create(session, spec_of(fmt::format("u/{}", i), 0600, 1));
  }
  host.turns = 0;
  v1::ListArraysReply reply;
  EXPECT_EQ(user.call(&v1::Admin::Stub::ListArrays, v1::ListArraysRequest(), reply), "OK");
  EXPECT_EQ(reply.arrays_size(), 300);
  EXPECT_EQ(host.turns, 4) << "the names, and 128 arrays at a time";
  EXPECT_EQ(stranger.call(&v1::Admin::Stub::ListArrays, v1::ListArraysRequest(), reply), "OK");
  EXPECT_EQ(reply.arrays_size(), 0);
}

TEST_F(Services, ASampleLeavesTheCoreToOthersInBetween) {
  for (int i = 0; i < 1100; ++i) {
    host.world.create(session, spec_of(fmt::format("u/{}", i), 0600, 1));
  }
  host.turns = 0;
  v1::SampleRequest columns;
  columns.set_known_through(UINT64_MAX);
  v1::SampleReply reply;
  EXPECT_EQ(user.call(&v1::Admin::Stub::Sample, columns, reply), "OK");
  EXPECT_EQ(reply.array_ids_size(), 1100);
  EXPECT_EQ(host.turns, 3) << "512 arrays at a time";
}

TEST_F(Services, ASessionSaysWhatItHasCreatedAndLeavesTheCoreToOthersMeanwhile) {
  std::uint64_t bytes = 0;
  for (int i = 0; i < 600; ++i) {
    const auto spec = spec_of(fmt::format("u/{}", i), 0600, 1);
    host.world.create(session, spec);
    bytes += wire::size_bytes_of(spec);
  }
  host.turns = 0;
  v1::ListSessionsReply reply;
  EXPECT_EQ(user.call(&v1::Admin::Stub::ListSessions, v1::Empty(), reply), "OK");
  ASSERT_EQ(reply.sessions_size(), 1);
  EXPECT_EQ(reply.sessions(0).bytes_created(), bytes);
  EXPECT_EQ(host.turns, 3) << "the sessions, and 512 arrays at a time";
}

TEST_F(Services, MetricsAreForAnybody) {
  v1::MetricsReply reply;
  EXPECT_EQ(stranger.call(&v1::Admin::Stub::Metrics, v1::Empty(), reply), "OK");
  EXPECT_EQ(reply.text(), "metrics 1\n");
}

TEST_F(Services, TheBooksAreVerifiedForRootAndTheDaemonsOwnUserAlone) {
  Connection root{host, 0};
  host.world.create(session, spec_of("a"));
  v1::VerifyReply reply;
  EXPECT_EQ(root.call(&v1::Admin::Stub::Verify, v1::Empty(), reply), "OK");
  EXPECT_EQ(reply.violations_size(), 0);
  EXPECT_EQ(reply.arrays(), 1U);
  EXPECT_EQ(reply.sessions(), 1U);
  EXPECT_EQ(user.call(&v1::Admin::Stub::Verify, v1::Empty(), reply), "Denied");
  const auto stray = host.world.broker.account(kUser).charge(server::Resource::kSessions, 1);
  ASSERT_TRUE(stray.ok());
  EXPECT_EQ(root.call(&v1::Admin::Stub::Verify, v1::Empty(), reply), "OK");
  EXPECT_EQ(reply.wrong(), 1U);
  ASSERT_EQ(reply.violations_size(), 1);
  EXPECT_EQ(reply.violations(0), "uid 1000 is charged 2 sessions, and what it has costs 1");
}

TEST_F(Services, ASlotThatIsAddedIsToldToTheOperator) {
  auto spec = spec_of("a", 0600, 2);
  spec.max_slots = 3;
  ASSERT_EQ(user.create(spec, &session), "OK");
  const wire::ArrayId id{user.opened.array_id()};
  host.world.become_writer(session, id);
  wire::ReaderRow& row = host.world.subscribe(session, id);
  row.holds()[0].store(1);
  v1::AddSlotRequest request;
  request.set_array_id(wire::to_int(id));
  request.set_slots(2);
  v1::Empty reply;
  EXPECT_EQ(user.call(&v1::Control::Stub::AddSlot, request, reply, &session), "Busy")
      << "nobody holds the other one";
  EXPECT_THAT(host.world.happened(server::Happening::kGrown), IsEmpty());
  row.holds()[1].store(1);
  EXPECT_EQ(user.call(&v1::Control::Stub::AddSlot, request, reply, &session), "OK");
  const auto grown = host.world.happened(server::Happening::kGrown);
  ASSERT_EQ(grown.size(), 1U);
  EXPECT_EQ(grown[0].array, "a");
  EXPECT_EQ(grown[0].slots, 3U);
  EXPECT_EQ(grown[0].pid, session.peer.pid);
}

TEST_F(Services, TheHistoryShowsWhatTheCallerMaySee) {
  ASSERT_EQ(user.create(spec_of("mine"), &session), "OK");
  ASSERT_EQ(user.create(spec_of("shown", 0644), &session), "OK");
  EXPECT_THAT(user.history(0), ElementsAre("mine", "shown"));
  EXPECT_THAT(stranger.history(0), ElementsAre("shown"));
  EXPECT_THAT(user.history(1), ElementsAre("shown"));
  EXPECT_EQ(user.seen.through(), 2U);
  EXPECT_THAT(user.history(2), IsEmpty());
}

TEST_F(Services, AnswersOfTheHistoryThatNobodyReadsAreFew) {
  server::UnreadEvents unread;
  EXPECT_EQ(unread.most_of_next(), 1024U);
  std::size_t held = 0;
  for (int call = 0; call < 2000; ++call) {
    const std::size_t events = unread.most_of_next();
    ASSERT_GE(events, 1U) << "who reads goes on";
    unread.add(events);
    held += events;
  }
  EXPECT_LT(held, 17'000U);
  unread.remove(held);
  EXPECT_EQ(unread.most_of_next(), 1024U);
}

TEST_F(Services, AWaitForTheHistoryEndsWithTheFirstEventThatTheCallerMaySee) {
  std::vector<std::string> seen;
  std::thread waiter([&] { seen = stranger.history(0, true); });
  while (host.history_waits().size() == 0) std::this_thread::yield();
  ASSERT_EQ(user.create(spec_of("mine"), &session), "OK");
  EXPECT_EQ(host.history_waits().size(), 1U) << "that is not for him";
  ASSERT_EQ(user.create(spec_of("shown", 0644), &session), "OK");
  waiter.join();
  EXPECT_THAT(seen, ElementsAre("shown"));
  EXPECT_EQ(stranger.seen.through(), 2U);
}

// They sleep while calls come (server/rpc/call_queue.h).
TEST_F(Services, NoThreadsServeCallbacks) {
  EXPECT_THAT(user.history(0), IsEmpty());
  EXPECT_EQ(user.answer, "OK");
  EXPECT_FALSE(thread_names().contains("nexting_thread"));
}

// Who looks again waits for the core, and for the other calls of his user.
TEST_F(Services, WhoMakesAnEventDoesNotWaitForThoseWhoWaitedForIt) {
  std::vector<std::string> seen;
  std::thread waiter([&] { seen = stranger.history(0, true); });
  while (host.history_waits().size() == 0) std::this_thread::yield();
  std::promise<void> has_core;
  std::promise<void> give_back;
  std::thread busy([&] {
    host.with_broker([&](server::Broker& /*broker*/) {
      has_core.set_value();
      give_back.get_future().wait();
    });
  });
  has_core.get_future().wait();
  const auto made = std::async(std::launch::async, [&] {
    server::HistoryEvent event;
    event.number = 1000;
    event.domain = server::AccessDomain{.mode = 0644};
    host.history_waits().happened({&event, 1});
  });
  EXPECT_EQ(made.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(host.history_waits().size(), 0U);
  give_back.set_value();
  busy.join();
  while (host.history_waits().size() == 0) std::this_thread::yield();  // there was nothing to see
  ASSERT_EQ(user.create(spec_of("shown", 0644), &session), "OK");
  waiter.join();
  EXPECT_THAT(seen, ElementsAre("shown"));
}

TEST_F(Services, AWaitForTheHistoryThatItsCallerGivesUpIsNoWaitAnyMore) {
  grpc::ClientContext context;
  std::thread waiter([&] { stranger.history(0, true, &context); });
  while (host.history_waits().size() == 0) std::this_thread::yield();
  context.TryCancel();
  waiter.join();
  while (host.history_waits().size() != 0) std::this_thread::yield();
}

TEST_F(Services, NobodyHasWaitsForTheHistoryWithoutEnd) {
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::thread> waiters;
  constexpr std::size_t kMost = 3;
  server::Broker::Limits limits;
  limits.per_uid.waiting_calls = kMost;
  host.world.broker.set_limits(limits, {});
  for (std::size_t i = 0; i < kMost; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    waiters.emplace_back(
        [&, context = contexts.back().get()] { stranger.history(0, true, context); });
  }
  while (host.history_waits().size() < kMost) std::this_thread::yield();
  EXPECT_THAT(stranger.history(0, true), IsEmpty());
  EXPECT_EQ(stranger.answer, "QuotaExceeded");
  EXPECT_THAT(stranger.history(0), IsEmpty()) << "who does not wait is not concerned";
  EXPECT_EQ(stranger.answer, "OK");
  for (const auto& context : contexts) context->TryCancel();
  for (std::thread& waiter : waiters) waiter.join();
  const auto& quota = host.world.broker.quota();
  while (quota.used_by(kStranger).waiting_calls != 0) std::this_thread::yield();
}

}  // namespace
}  // namespace memlease::testing
