// A writer dies in the middle of a line of its bytes, at one line after the other: nobody reads a
// mixture of two versions, and who waits for the version that will not come is told at once.
#include <memlease/memlease.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/support/fork_server.h"
#include "tests/support/goal.h"
#include "tests/support/options_for.h"
#include "tests/support/pattern.h"
#include "tests/support/peer.h"
#include "tests/support/percentile.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr std::size_t kWordsOfAMiB = (1 << 20) / sizeof(std::uint64_t);
constexpr std::size_t kWordsOfALine = 64 / sizeof(std::uint64_t);
constexpr std::uint64_t kLines = kWordsOfAMiB / kWordsOfALine;

// What the victim leaves: the moment of its death.
class LastMoment {
 public:
  void note() { *at_ = Clock::now(); }
  Clock::time_point at() const { return *at_; }
  LastMoment() = default;
  ~LastMoment() { ::munmap(at_, sizeof *at_); }
  LastMoment(const LastMoment&) = delete;
  LastMoment& operator=(const LastMoment&) = delete;

 private:
  Clock::time_point* const at_ = static_cast<Clock::time_point*>(
      ::mmap(nullptr, sizeof(Clock::time_point), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
             -1, 0));
};

class CrashLines : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  // Writes whole lines up to this one, and half of this one.
  void die_in_line(std::uint64_t line) {
    const Client client = Client::connect(options_for(daemon_));
    WriteLease lease = client.open("a").write();
    Pattern pattern(static_cast<std::uint64_t*>(lease.data()), kWordsOfAMiB);
    pattern.fill_to(lease.version(), static_cast<std::uint64_t>(::getpid()),
                    (line * kWordsOfALine) + (kWordsOfALine / 2));
    last_moment_.note();
    ::kill(::getpid(), SIGKILL);
  }
  std::uint64_t put() {
    const Answer answer = owner_.ask("put a 20000");
    EXPECT_TRUE(answer.ok()) << answer.describe();
    return answer.number();
  }
  static std::string wrong_with(const ReadLease& lease, std::uint64_t version) {
    return Pattern(static_cast<std::uint64_t*>(const_cast<void*>(lease.data())), kWordsOfAMiB)
        .wrong(version);
  }

  PrivateDaemon daemon_{{"--warm-bytes=0", "--log-level=error"}};
  LastMoment last_moment_;
  ForkServer victims_{[this](std::uint64_t line) { die_in_line(line); }};
  Peer owner_{daemon_.directory()};
};
INSTANTIATE_TEST_SUITE_P(Slots, CrashLines, ::testing::Values(1, 3));

TEST_P(CrashLines, OfAWriteMixNoVersions) {
  const std::uint64_t points = goal(32, kLines);
  ASSERT_TRUE(owner_.ask("connect").ok());
  ASSERT_TRUE(
      owner_.ask(fmt::format("create a {} 600 {} persistent", GetParam(), kWordsOfAMiB)).ok());
  std::vector<microseconds> told;
  {
    const Client client = Client::connect(options_for(daemon_));
    const Array array = client.open("a");
    for (std::uint64_t point = 0; point < points; ++point) {
      const std::uint64_t line = point * kLines / points;
      SCOPED_TRACE(fmt::format("line {}", line));
      const std::uint64_t base = put();
      ASSERT_EQ(wrong_with(array.read(), base), "");
      victims_.start(line);
      ReadOptions next;
      next.version = base + 1;
      next.timeout = std::chrono::seconds(5);
      ASSERT_THROW(static_cast<void>(array.read(next)), ProducerDied);
      told.push_back(std::chrono::duration_cast<microseconds>(Clock::now() - last_moment_.at()));
      const int status = victims_.wait();
      ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
      if (GetParam() == 1) {
        ASSERT_THROW(static_cast<void>(array.read()), ProducerDied);
      } else {
        ASSERT_EQ(wrong_with(array.read(), base), "") << "the version before";
      }
    }
    const std::uint64_t last = put();
    ASSERT_EQ(wrong_with(array.read(), last), "");
  }
  ASSERT_TRUE(owner_.ask("withdraw a").ok());
  EXPECT_EQ(daemon_.unsettled(1), "");
  const microseconds most = percentile(told, 99);
  EXPECT_LT(most.count(), goal(2'000'000, 5'000)) << "the machine may be busy in a short run";
  reached(
      "a writer killed in each of {} lines of 1 MiB, {} slots: 0 mixtures; told after {} us "
      "(median), {} us (99th percentile), {} us (worst)",
      points, GetParam(), percentile(told, 50).count(), most.count(),
      std::ranges::max(told).count());
}

}  // namespace
}  // namespace memlease::testing
