// Threads of the daemon: calls that wait take none, and a lack of them costs a connection and not
// the daemon. Not for a sanitized daemon: gRPC leaks what it has made for a thread that it does not
// get.
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
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
using Stub = v1::Control::Stub;

constexpr uid_t kUser = 54321;

std::size_t threads_of(pid_t pid) {
  const std::filesystem::directory_iterator threads(fmt::format("/proc/{}/task", pid));
  return static_cast<std::size_t>(std::distance(begin(threads), end(threads)));
}

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

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
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
  limit_threads(daemon_.pid(), threads_of(daemon_.pid()));
  EXPECT_EQ(list(), wire::ErrorCode::kDaemonLost);
  EXPECT_THAT(daemon_.log(), HasSubstr("no threads are left for gRPC"));
  limit_threads(daemon_.pid(), std::nullopt);
  EXPECT_EQ(list(), wire::ErrorCode::kDenied) << "without a token";
}

TEST_F(ThreadLimit, LetsTheServerOfAUserWhoLeftEnd) {
  std::size_t count = 0;
  {
    RawControl control(daemon_.directory(), kUser);
    EXPECT_EQ(wire::code_of(control.list("")), wire::ErrorCode::kDenied);
    count = threads_of(daemon_.pid());
    limit_threads(daemon_.pid(), 1);
  }
  EXPECT_TRUE(eventually([&] { return threads_of(daemon_.pid()) < count; }));
  limit_threads(daemon_.pid(), std::nullopt);
  EXPECT_EQ(list(), wire::ErrorCode::kDenied);
}

// Some of what gRPC starts with it gets, and the next thread it does not.
TEST(ThreadLimits, AreSurvivedHoweverFewAreLeft) {
  for (std::size_t left = 0; left < 24; ++left) {
    SCOPED_TRACE(left);
    PrivateDaemon daemon({"--log-level=warning"}, kUser);
    limit_threads(daemon.pid(), threads_of(daemon.pid()) + left);
    const absl::Status answer = RawControl(daemon.directory(), kUser).list("");
    EXPECT_THAT(wire::code_of(answer),
                AnyOf(wire::ErrorCode::kDenied,          // served: no token
                      wire::ErrorCode::kDaemonLost,      // the connection refused
                      wire::ErrorCode::kQuotaExceeded))  // the call refused
        << answer;
    EXPECT_EQ(daemon.wait(0), -1) << "it has ended";
  }
}

TEST(WaitingCalls, TakeNoThreadsFromOthers) {
  constexpr int kConnections = 6;
  constexpr int kWaitsEach = 50;
  PrivateDaemon daemon({"--log-level=debug"});
  auto session = internal::AttachClient::connect(daemon.directory());
  ASSERT_TRUE(session.ok()) << session.status();
  const std::string credential = credential_of(**session);
  v1::WaitForRequest wait;
  wait.set_name("late");
  wait.set_timeout_ms(60'000);
  std::vector<std::unique_ptr<RawControl>> controls;
  std::vector<std::thread> threads;
  for (int i = 0; i < kConnections; ++i) {
    controls.push_back(std::make_unique<RawControl>(daemon.directory()));
    for (int k = 0; k < kWaitsEach; ++k) {
      threads.emplace_back([&, control = controls.back().get()] {
        v1::WaitForReply reply;
        const absl::Status status = control->call(&Stub::WaitFor, credential, wait, reply);
        EXPECT_TRUE(status.ok()) << status;
        EXPECT_TRUE(reply.exists());
      });
    }
  }
  EXPECT_TRUE(eventually(
      [&] { return count_of(daemon.log(), "name=WaitFor") == kConnections * kWaitsEach; }));
  EXPECT_LT(threads_of(daemon.pid()), 100U);
  RawControl other(daemon.directory());
  v1::CreateRequest create;
  wire::ArraySpec spec;
  spec.name = "late";
  spec.dtype = {wire::DTypeCode::kFloat, 32, 1};
  spec.shape = {4};
  *create.mutable_spec() = wire::to_proto(spec);
  const absl::Status created = other.call(&Stub::Create, credential, create);
  EXPECT_TRUE(created.ok()) << created;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace memlease::testing
