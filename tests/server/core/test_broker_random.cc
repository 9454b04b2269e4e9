// Sessions that do anything in any order, and die anywhere: in the end everything is returned.
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck.h"
#include "rapidcheck/gtest.h"
#include "server/core/broker.h"
#include "server/core/report.h"
#include "tests/server/core/broker_world.h"

namespace memlease::server {
namespace {

using testing::BrokerWorld;
using testing::FakeMemory;
using testing::spec_of;

// Four sessions of two uids play with three names.
class Play {
 public:
  // Ends of sessions take many calls.
  Play() : world_(testing::limits_of_slices(1)) {
    for (uid_t i = 0; i < kSessions; ++i) sessions_.push_back(&world_.connect(1000 + i % 2));
  }

  // One step, chosen by the numbers; whatever the broker answers is fine.
  void step(unsigned action, std::size_t who, std::size_t which) {
    Session*& session = sessions_[who % kSessions];
    const std::string name = kNames[which % std::size(kNames)];
    const auto memberships = session->memberships.size();
    switch (action % 12) {
      case 0:
      case 1: {
        auto spec =
            spec_of(name, which % 2 == 0 ? 0666 : 0600, static_cast<std::uint32_t>(1 + which % 3));
        if (which % 5 == 0) spec.lifetime = wire::Lifetime::kPersistent;
        world_.try_create(*session, spec, which % 4 == 0).IgnoreError();
        break;
      }
      case 2:
        world_.broker.open(*session, name).IgnoreError();
        break;
      case 3:
        if (memberships > 0) toggle_hold(*session, member_of(*session, which));
        break;
      case 4:
      case 5:
        if (memberships > 0) move_right(*session, member_of(*session, which));
        break;
      case 6:
        if (memberships > 0) {
          world_.broker.leave(*session, member_of(*session, which), 1).IgnoreError();
        }
        break;
      case 7:
        world_.broker.withdraw(session->peer, name).IgnoreError();
        break;
      case 8:
        end(session, which);
        session = &world_.connect(1000 + static_cast<uid_t>(who % 2));
        break;
      case 9:
        world_.broker.work_off_ends();
        break;
      case 10:
        world_.clock.advance_ms(which * 100);
        break;
      default:
        for (const Array* array : world_.broker.catalog().all()) report_of(world_.broker, *array);
    }
  }

  void finish() {
    for (Session* session : sessions_) world_.broker.exited(session->id);
    while (world_.broker.work_off_ends()) {
    }
    for (const char* name : kNames) {
      world_.broker.withdraw(testing::peer_of(0), name).IgnoreError();
    }
    RC_ASSERT(world_.broker.idle());
    RC_ASSERT(world_.memory.live() == FakeMemory::Live{});
    for (const Quota* quota : {&world_.broker.quota(), &world_.broker.host().quota}) {
      for (const auto& [uid, account] : quota->accounts()) RC_ASSERT(account.usage() == Usage{});
    }
  }

  // Whoever the board calls the writer is the one that the broker means.
  void check() {
    for (const Array* array : world_.broker.catalog().all()) {
      const std::uint64_t word = array->board->writer.load();
      const bool takeover = (word & wire::kWriterVacant) != 0;
      RC_ASSERT(takeover == (array->writer == wire::SessionId{0}));
      RC_ASSERT(((word & wire::kWriterMoving) != 0) == (array->pending != nullptr));
      RC_ASSERT(((word & wire::kWriterWithdrawn) != 0) == array->withdrawn);
      RC_ASSERT(!array->withdrawn || !array->members.empty());
      if (takeover) RC_ASSERT(wire::writer_row_of(word) == row_ref(array->takeover_at));
    }
  }

 private:
  static constexpr std::size_t kSessions = 4;
  static constexpr const char* kNames[] = {"a", "b", "c"};

  static wire::ArrayId member_of(const Session& session, std::size_t which) {
    auto it = session.memberships.begin();
    std::advance(it, which % session.memberships.size());
    return it->first;
  }
  void toggle_hold(Session& session, wire::ArrayId id) {
    const auto row = world_.broker.subscribe(session, id);
    if (!row.ok()) return;
    auto& hold = world_.reader_row(session, row->row).holds()[0];
    hold.store(1 - hold.load());
  }
  // Asks, and goes on from wherever the last question led to.
  void move_right(Session& session, wire::ArrayId id) {
    const auto answer = world_.broker.acquire_writer(session, id);
    if (!answer.ok()) return;
    auto& row = world_.writer_row(session, answer->row);
    switch (answer->state) {
      case WriterAnswer::State::kGranted:
        row.writing.store(1 - row.writing.load());
        break;
      case WriterAnswer::State::kOffered:
        if (answer->offer % 3 != 0) {
          world_.broker.confirm_writer(session, id, answer->offer).IgnoreError();
        }
        break;
      case WriterAnswer::State::kBusy:
        if (world_.clock.monotonic_ms() % 200 == 0) {
          world_.broker.cancel_writer(session, id).IgnoreError();
        }
        break;
    }
  }
  void end(Session* session, std::size_t which) {
    const wire::SessionId id = session->id;
    if (which % 3 != 0) world_.broker.hang_up(id, which % 3 == 1);
    const Session* left = world_.broker.sessions().find(id);
    if (left != nullptr && !left->ending) world_.broker.exited(id);
  }

  BrokerWorld world_;
  std::vector<Session*> sessions_;
};

RC_GTEST_PROP(BrokerRandom, StaysConsistentAndReturnsEverything, ()) {
  const auto steps =
      *rc::gen::container<std::vector<std::tuple<unsigned, std::size_t, std::size_t>>>(
          200, rc::gen::tuple(rc::gen::inRange(0U, 12U), rc::gen::inRange<std::size_t>(0, 4),
                              rc::gen::inRange<std::size_t>(0, 60)));
  Play play;
  for (const auto& [action, who, which] : steps) {
    play.step(action, who, which);
    play.check();
  }
  play.finish();
}

}  // namespace
}  // namespace memlease::server
