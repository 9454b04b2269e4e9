// Threads of the daemon: a lack of them costs a connection and not the daemon. Not for a sanitized
// daemon: gRPC leaks what it has made for a thread that it does not get.
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "tests/integration/raw_control.h"
#include "tests/support/eventually.h"
#include "tests/support/private_daemon.h"
#include "wire/error.h"

namespace memlease::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr uid_t kUser = 54321;

// As the user itself, since root need not have the right in a container.
void limit_threads(pid_t pid, std::optional<rlim_t> count) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NPROC, &limit), 0);
  limit.rlim_cur = count.value_or(limit.rlim_max);
  ASSERT_EQ(::setregid(kUser, 0), 0);
  ASSERT_EQ(::setreuid(kUser, 0), 0);
  EXPECT_EQ(::prlimit(pid, RLIMIT_NPROC, &limit, nullptr), 0) << std::strerror(errno);
  ASSERT_EQ(::setreuid(0, 0), 0);
  ASSERT_EQ(::setregid(0, 0), 0);
}

// In more threads than the server has for a user whose calls come one by one.
void at_once(const std::function<void()>& work) {
  std::vector<std::jthread> threads;
  while (threads.size() < 8) threads.emplace_back(work);
}

class ThreadLimit : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::geteuid(), 0U) << "these tests become other users: run them as root";
  }
  // Whatever it answers, it answers.
  wire::ErrorCode list() { return wire::code_of(RawControl(daemon_.directory(), kUser).list("")); }

  PrivateDaemon daemon_{{"--log-level=warning"}, kUser};
};

TEST_F(ThreadLimit, RefusesAConnectionAndNoMore) {
  limit_threads(daemon_.pid(), daemon_.threads());
  EXPECT_EQ(list(), wire::ErrorCode::kDaemonLost);
  EXPECT_THAT(daemon_.log(), HasSubstr("this process gets no threads to answer a user"));
  limit_threads(daemon_.pid(), std::nullopt);
  EXPECT_EQ(list(), wire::ErrorCode::kDenied) << "without a token";
}

TEST_F(ThreadLimit, LetsTheServerOfAUserWhoLeftEnd) {
  std::size_t count = 0;
  {
    RawControl control(daemon_.directory(), kUser);
    EXPECT_EQ(wire::code_of(control.list("")), wire::ErrorCode::kDenied);
    count = daemon_.threads();
    limit_threads(daemon_.pid(), 1);
  }
  EXPECT_TRUE(eventually([&] { return daemon_.threads() < count; }));
  limit_threads(daemon_.pid(), std::nullopt);
  EXPECT_EQ(list(), wire::ErrorCode::kDenied);
}

// gRPC counts a thread that it did not get as one of the 128 that a user's server may have.
TEST_F(ThreadLimit, HasNoEffectOnceItIsLifted) {
  RawControl control(daemon_.directory(), kUser);
  EXPECT_EQ(wire::code_of(control.list("")), wire::ErrorCode::kDenied);
  std::atomic<int> refused = 0;
  const auto call = [&] {
    if (wire::code_of(control.list("")) == wire::ErrorCode::kBusy) ++refused;
  };
  limit_threads(daemon_.pid(), daemon_.threads());
  at_once([&] {
    while (refused < 2 * 128) call();
  });
  limit_threads(daemon_.pid(), std::nullopt);
  refused = 0;
  at_once([&] {
    for (int count = 0; count < 200; ++count) call();
  });
  EXPECT_EQ(refused, 0);
}

// Some of what gRPC starts with it gets, and the next thread it does not.
TEST(ThreadLimits, AreSurvivedHoweverFewAreLeft) {
  for (std::size_t left = 0; left < 24; ++left) {
    SCOPED_TRACE(left);
    PrivateDaemon daemon({"--log-level=warning"}, kUser);
    limit_threads(daemon.pid(), daemon.threads() + left);
    const absl::Status answer = RawControl(daemon.directory(), kUser).list("");
    EXPECT_THAT(wire::code_of(answer),
                AnyOf(wire::ErrorCode::kDenied,      // served: no token
                      wire::ErrorCode::kDaemonLost,  // the connection refused
                      wire::ErrorCode::kBusy))       // the call turned away
        << answer;
    EXPECT_EQ(daemon.wait(0), -1) << "it has ended";
  }
}

}  // namespace
}  // namespace memlease::testing
