// A client is killed at every step of the protocol that the library names, in every role, with a
// bystander that reads all the time, and a writer that goes on afterwards.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <thread>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "memlease/v1/admin.pb.h"
#include "tests/integration/crash_step.h"
#include "tests/support/eventually.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// One array, and those who stand by when a process dies over it.
class Scene {
 public:
  Scene(PrivateDaemon& daemon, std::uint32_t slots, int timeout_ms)
      : daemon_(daemon), slots_(slots), timeout_ms_(timeout_ms) {
    for (Peer* peer : {&owner_, &bystander_, &other_}) must(peer->ask("connect"));
  }

  // "" if all is as it must be after a signal to the victim at the step; else what is wrong.
  std::string after(const CrashStep& step, int signal) {
    name_ = fmt::format("array{}", ++arrays_);
    wrong_.clear();
    must(owner_.ask(filled(
        fmt::format("create {{}} {}{} 600 512 persistent", slots_, step.grows ? ":64" : ""))));
    base_ = must(owner_.ask(filled("put {} 1000"))).number();
    must(bystander_.ask(filled("watch {}")));
    Peer victim(daemon_.directory());
    act(step, signal, victim);
    // A victim that is only stopped stays, of course: what follows shall find that out by itself.
    if (signal == SIGKILL) wrong(!gone(victim.pid()), "the daemon still has the victim's session");
    if (step.outcome == Outcome::kWithdrawn) {
      if (wrong_.empty()) start_anew();
    } else {
      if (wrong_.empty()) stand(step);
      if (wrong_.empty()) go_on(step);
      const Answer watched = must(bystander_.ask(filled("unwatch {}")));
      if (watched.ok()) wrong(watched.number() == 0, "the bystander read nothing");
    }
    if (wrong_.empty()) cycle();
    victim.kill();
    clear();
    return wrong_;
  }

 private:
  std::string filled(const std::string& command) const {
    return fmt::format(fmt::runtime(command), name_);
  }
  void wrong(bool is, const std::string& what) {
    if (is && wrong_.empty()) wrong_ = what;
  }
  Answer must(const Answer& answer) {
    wrong(!answer.ok(), answer.describe());
    return answer;
  }

  // ---- Up to the victim's end.

  void act(const CrashStep& step, int signal, Peer& victim) {
    for (const std::string& command : step.before) must(victim.ask(filled(command)));
    set_the_stage(step, victim);
    must(victim.ask(fmt::format("arm {} {} {}", step.step, step.nth, signal)));
    if (step.stage == Stage::kReadOvertaken) {
      must(victim.ask(fmt::format("arm acquire.located 1 {}", SIGSTOP)));
      victim.say(filled(step.last));
      wrong(victim.wait_for_signal() != SIGSTOP, "the victim did not stop before its hold");
      for (std::uint32_t i = 0; i < slots_; ++i) put();
      victim.signal(SIGCONT);
    } else {
      victim.say(filled(step.last));
    }
    wrong(victim.wait_for_signal() != signal, "the victim did not come to this step");
  }

  void put() { base_ = must(owner_.ask(filled("put {} 2000"))).number(); }

  // The reader comes to hold every slot that somebody else could write.
  void hold_all(Peer& reader) {
    must(reader.ask(filled("read {} 0 1000")));
    for (std::uint32_t i = 1; i < slots_; ++i) {
      put();
      must(reader.ask(filled("read {} 0 1000")));
    }
  }

  void set_the_stage(const CrashStep& step, Peer& victim) {
    switch (step.stage) {
      case Stage::kPlain:
      case Stage::kReadOvertaken:
        return;
      case Stage::kWriterWaits:
        hold_all(victim);
        must(owner_.ask(fmt::format("arm write.wanted 1 {}", SIGSTOP)));
        owner_.say(filled("put {} 5000"));
        wrong(owner_.wait_for_signal() != SIGSTOP, "the owner does not wait for a slot");
        return;
      case Stage::kReaderSleeps:
        must(other_.ask(fmt::format("arm sleep.announced 1 {}", SIGSTOP)));
        other_.say(filled(fmt::format("read {{}} {} 5000", base_)));
        wrong(other_.wait_for_signal() != SIGSTOP, "the reader does not sleep");
        return;
      case Stage::kSlotsHeld:
        hold_all(other_);
        return;
      case Stage::kOwnerWrites:
        must(owner_.ask(filled("write {} 1000")));
        return;
      case Stage::kOwnershipWanted:
        must(other_.ask(fmt::format("arm ownership.busy 1 {}", SIGSTOP)));
        other_.say(filled("put {} 5000"));
        wrong(other_.wait_for_signal() != SIGSTOP, "nobody waits for ownership");
        return;
    }
  }

  // ---- Afterwards.

  // The daemon has noticed; what stands is what should.
  void stand(const CrashStep& step) {
    if (step.stage == Stage::kWriterWaits) {
      owner_.signal(SIGCONT);
      base_ = must(owner_.answer(timeout_ms_)).number();
    }
    if (step.stage == Stage::kReaderSleeps) {
      other_.signal(SIGCONT);
      wrong(must(other_.answer(timeout_ms_)).number() <= base_, "the sleeper read an old version");
      must(other_.ask(filled("release {}")));
    }
    if (step.stage == Stage::kOwnerWrites) {
      must(owner_.ask(filled("fill {}")));
      base_ = must(owner_.ask(filled("publish {}"))).number();
    }
    if (step.stage == Stage::kOwnershipWanted) {
      other_.signal(SIGCONT);
      const std::uint64_t due = base_ + 2;  // the victim's number counts as used
      base_ = must(other_.answer(timeout_ms_)).number();
      wrong(base_ != due, fmt::format("version {} is next, not {}", base_, due));
    }
    const Answer seen = other_.ask(filled(fmt::format("read {{}} 0 {}", timeout_ms_)));
    const std::string died = step.outcome == Outcome::kTorn      ? "ProducerDied"
                             : step.outcome == Outcome::kDropped ? "WriteAborted"
                                                                 : "";
    if (slots_ == 1 && !died.empty()) {
      wrong(seen.code != died, "a reader must see " + died + ", not " + seen.describe());
    } else if (must(seen).ok()) {
      const std::uint64_t due = base_ + (step.outcome == Outcome::kNew ? 1 : 0);
      wrong(seen.number() != due, fmt::format("version {} stands, not {}", seen.number(), due));
    }
    must(other_.ask(filled("verify {}")));
    must(other_.ask(filled("release {}")));
  }

  // Everybody is told, the name is free, and what comes under it is an array like any other.
  void start_anew() {
    for (const char* command : {"read {} 0 1000", "put {} 1000"}) {
      const Answer answer = owner_.ask(filled(command));
      wrong(answer.code != "Withdrawn", "withdrawn, and the owner is told " + answer.describe());
    }
    bystander_.ask(filled("unwatch {}"));  // has seen it, or comes to it only now:
    const Answer seen = bystander_.ask(filled("read {} 0 1000"));
    wrong(seen.code != "Withdrawn", "withdrawn, and a reader is told " + seen.describe());
    must(owner_.ask(filled(fmt::format("create {{}} {} 600 512 persistent", slots_))));
    base_ = must(owner_.ask(filled("put {} 1000"))).number();
    wrong(base_ != 1, fmt::format("a new array begins with version {}", base_));
  }

  bool gone(pid_t pid) {
    const auto end = Clock::now() + milliseconds(timeout_ms_);
    while (Clock::now() < end) {
      const auto sessions = daemon_.admin().list_sessions();
      if (!sessions.ok()) return false;
      if (std::none_of(sessions->sessions().begin(), sessions->sessions().end(),
                       [&](const v1::SessionInfo& session) { return session.pid() == pid; })) {
        return true;
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
    return false;
  }

  // Another writer gets ownership and the next number, and never one that was used.
  void go_on(const CrashStep& step) {
    const std::uint64_t due = base_ + (step.number_used ? 2 : 1);
    const Answer next = must(owner_.ask(filled(fmt::format("put {{}} {}", timeout_ms_))));
    if (!next.ok()) return;
    wrong(next.number() != due, fmt::format("version {} is next, not {}", next.number(), due));
    base_ = next.number();
    const Answer seen = must(other_.ask(filled(fmt::format("read {{}} {} 1000", base_ - 1))));
    if (seen.ok()) wrong(seen.number() != base_, "a reader does not get the next version");
    must(other_.ask(filled("release {}")));
  }

  // No slot is lost.
  void cycle() {
    std::set<std::uint64_t> slots;
    for (std::uint32_t i = 0; i < 2 * slots_; ++i) {
      const Answer answer = must(owner_.ask(filled("put {} 1000")));
      if (answer.ok()) slots.insert(answer.number(1));
    }
    wrong(slots.size() != slots_, fmt::format("only {} of {} slots come", slots.size(), slots_));
  }

  // Everybody leaves; the books must come to nothing.
  void clear() {
    for (Peer* peer : {&owner_, &bystander_, &other_}) {
      peer->signal(SIGCONT);
      peer->ask(filled("release {}"));
      peer->ask(filled("drop {}"));
    }
    bystander_.ask(filled("close {}"));
    other_.ask(filled("close {}"));
    must(owner_.ask(filled("withdraw {}")));
    const std::string standing = daemon_.unsettled(3);
    wrong(!standing.empty(), standing);
  }

  PrivateDaemon& daemon_;
  const std::uint32_t slots_;
  const int timeout_ms_;
  Peer owner_{daemon_.directory()};
  Peer bystander_{daemon_.directory()};
  Peer other_{daemon_.directory()};
  int arrays_ = 0;
  std::string name_;
  std::string wrong_;
  std::uint64_t base_ = 0;  // the version that stood before the victim's last command
};

class CrashPoints : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  PrivateDaemon daemon_{{"--warm-bytes=0", "--log-level=warning"}};
};

TEST_P(CrashPoints, HurtNobodyElse) {
  const std::size_t memfds = daemon_.memfds();
  {
    Scene scene(daemon_, GetParam(), 2'000);
    for (const CrashStep& step : crash_steps()) {
      if (GetParam() < step.least_slots || GetParam() > step.most_slots) continue;
      EXPECT_EQ(scene.after(step, SIGKILL), "")
          << "killed at " << step.step << " (" << step.nth << ") in '" << step.last << "'";
    }
  }
  EXPECT_EQ(daemon_.unsettled(), "");
  const std::size_t most = memfds + PrivateDaemon::kSpareFiles;
  EXPECT_TRUE(eventually([&] { return daemon_.memfds() <= most; })) << daemon_.memfds();
}

INSTANTIATE_TEST_SUITE_P(Slots, CrashPoints, ::testing::Values(1, 2, 3));

TEST(CrashSteps, AreAllTested) {
  std::set<std::string> tested;
  for (const CrashStep& step : crash_steps()) tested.insert(step.step);
  tested.erase("bytes.half");  // in the middle of the user's bytes, not in the library
  const std::vector<std::string> named = steps_in_sources();
  EXPECT_THAT(tested, ::testing::UnorderedElementsAreArray(
                          std::set<std::string>(named.begin(), named.end())));
}

// The same look at a process that was stopped, not killed: nobody may decide that it is dead, so
// the look must find what is missing. A check that finds nothing here would find nothing elsewhere.
struct Control {
  std::uint32_t slots;
  std::string step;
  std::string finding;
};
constexpr auto kTorn = "must see ProducerDied, not Timeout";

TEST(CrashPointsControl, AStoppedVictimIsNoticed) {
  PrivateDaemon daemon({"--warm-bytes=0", "--log-level=warning"});
  for (const Control& control : {Control{1, "write.handed_out", kTorn},
                                 {1, "acquire.held", "NoFreeSlot"},
                                 {3, "write.handed_out", "Timeout: writer ownership"},
                                 {3, "write.flagged", "Timeout: writer ownership"},
                                 {3, "acquire.held", "only 2 of 3 slots come"}}) {
    Scene scene(daemon, control.slots, 200);
    for (const CrashStep& step : crash_steps()) {
      if (step.step != control.step || control.slots < step.least_slots) continue;
      EXPECT_THAT(scene.after(step, SIGSTOP), ::testing::HasSubstr(control.finding))
          << "stopped at " << step.step << ", slots " << control.slots;
    }
  }
}

}  // namespace
}  // namespace memlease::testing
