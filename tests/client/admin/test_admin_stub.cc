#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "client/admin/admin_stub.h"
#include "gtest/gtest.h"
#include "tests/support/fake_daemon.h"
#include "wire/error.h"
#include "wire/grpc/convert.h"

namespace memlease::internal {
namespace {

using testing::FakeDaemon;
using wire::ErrorCode;

std::unique_ptr<AdminStub> connected(const FakeDaemon& daemon,
                                     AdminStub::Timeout timeout = AdminStub::kDefaultTimeout) {
  auto stub = AdminStub::connect(daemon.directory(), timeout);
  EXPECT_TRUE(stub.ok()) << stub.status();
  return *std::move(stub);
}

ErrorCode code_of_connect(const std::string& directory) {
  const auto stub = AdminStub::connect(directory);
  EXPECT_FALSE(stub.ok());
  EXPECT_FALSE(wire::hint_of(stub.status()).empty());
  return wire::code_of(stub.status());
}

TEST(AdminStub, KnowsWhoListens) {
  const FakeDaemon daemon;
  const auto stub = connected(daemon);
  EXPECT_EQ(stub->daemon_pid(), ::getpid());
  EXPECT_EQ(stub->daemon_uid(), ::geteuid());
}

TEST(AdminStub, PassesArgumentsAndAnswers) {
  FakeDaemon daemon;
  daemon.admin().status.set_uptime_ms(1234);
  daemon.admin().arrays[""].add_arrays()->set_array_id(7);
  daemon.admin().arrays["p"].add_arrays()->set_array_id(17);
  daemon.admin().holders[""].add_holders()->set_pid(8);
  daemon.admin().holders["p"].add_holders()->set_pid(18);
  daemon.admin().sessions.add_sessions()->set_session_id(9);
  const auto stub = connected(daemon);
  EXPECT_EQ(stub->status()->uptime_ms(), 1234U);
  EXPECT_EQ(stub->list_arrays("sim/*")->arrays(0).array_id(), 7U);
  EXPECT_EQ(daemon.admin().last_text, "sim/*");
  EXPECT_FALSE(daemon.admin().asked_for_attributes);
  EXPECT_EQ(stub->list_arrays("", true, "p")->arrays(0).array_id(), 17U);
  EXPECT_TRUE(daemon.admin().asked_for_attributes);
  EXPECT_EQ(stub->list_holders("u")->holders(0).pid(), 8);
  EXPECT_EQ(daemon.admin().last_text, "u");
  EXPECT_EQ(stub->list_holders("", "p")->holders(0).pid(), 18);
  EXPECT_EQ(stub->list_sessions()->sessions(0).session_id(), 9U);
  EXPECT_TRUE(stub->withdraw("v").ok());
  EXPECT_EQ(daemon.admin().last_text, "v");
  EXPECT_TRUE(stub->evict(4'000'000'000).ok());
  EXPECT_EQ(daemon.admin().last_session, 4'000'000'000);
}

TEST(AdminStub, PassesTheDaemonsErrors) {
  FakeDaemon daemon;
  const absl::Status error = wire::make_error(ErrorCode::kDenied, "not yours", "ask");
  daemon.admin().error = wire::to_grpc(error);
  EXPECT_EQ(connected(daemon)->withdraw("u"), error);
}

TEST(AdminStub, MakesCallsAgainThatAreTurnedAwayUntilItsTimeIsOver) {
  FakeDaemon daemon;
  daemon.admin().turns_away = 3;
  EXPECT_TRUE(connected(daemon)->status().ok());
  EXPECT_EQ(daemon.admin().turns_away, 0);
  daemon.admin().turns_away = 1000;
  const auto late = connected(daemon, std::chrono::milliseconds(50))->status();
  EXPECT_EQ(wire::code_of(late.status()), ErrorCode::kBusy) << late.status();
}

TEST(AdminStub, SaysWhetherTheDaemonServes) {
  FakeDaemon daemon;
  const auto stub = connected(daemon);
  EXPECT_EQ(*stub->serving(), true);
  daemon.set_serving(false);
  EXPECT_EQ(*stub->serving(), false);
}

TEST(AdminStub, DoesNotWaitForeverForASlowDaemon) {
  FakeDaemon daemon;
  daemon.admin().delay = std::chrono::milliseconds(300);
  const auto reply = connected(daemon, std::chrono::milliseconds(50))->status();
  EXPECT_EQ(wire::code_of(reply.status()), ErrorCode::kTimeout);
}

TEST(AdminStub, CancelEndsTheCallThatIsUnderWayAndThoseToCome) {
  FakeDaemon daemon;
  daemon.admin().delay = std::chrono::seconds(2);
  const auto stub = connected(daemon);
  const auto start = std::chrono::steady_clock::now();
  auto answer = std::async(std::launch::async, [&] { return stub->status().status(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  stub->cancel();
  EXPECT_EQ(wire::code_of(answer.get()), ErrorCode::kInterrupted);
  EXPECT_EQ(wire::code_of(stub->list_sessions().status()), ErrorCode::kInterrupted);
  EXPECT_LT(std::chrono::steady_clock::now() - start, daemon.admin().delay);
}

TEST(AdminStub, SaysThatTheDaemonHasGone) {
  FakeDaemon daemon;
  const auto stub = connected(daemon);
  ASSERT_TRUE(stub->status().ok());
  daemon.stop();
  EXPECT_EQ(wire::code_of(stub->status().status()), ErrorCode::kDaemonLost);
}

TEST(AdminStub, NobodyListensWhereADaemonHasDied) {
  FakeDaemon daemon;
  daemon.stop();
  ASSERT_TRUE(std::filesystem::exists(daemon.directory() + "/control.sock"));
  EXPECT_EQ(code_of_connect(daemon.directory()), ErrorCode::kDaemonUnavailable);
}

TEST(AdminStub, NobodyListensWhereThereIsNothing) {
  EXPECT_EQ(code_of_connect("/tmp/memlease-none"), ErrorCode::kDaemonUnavailable);
}

TEST(AdminStub, RefusesAPathThatIsTooLong) {
  EXPECT_EQ(code_of_connect("/" + std::string(107, 'd')), ErrorCode::kInvalidArgument);
}

// As other users: root only, as which the tests run.
class AdminStubOfOthers : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::geteuid(), 0U) << "run the tests as root"; }
};

TEST_F(AdminStubOfOthers, ASocketThatIsNotForThisUserIsDenied) {
  // Before there are threads: ASan's allocator does not get over a fork beside one that allocates.
  int there[2];
  ASSERT_EQ(::pipe(there), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::string directory(200, '\0');
    const auto size = ::read(there[0], directory.data(), directory.size());
    if (size <= 0 || ::setuid(54321) != 0) ::_exit(99);
    directory.resize(static_cast<std::size_t>(size));
    ::_exit(static_cast<int>(wire::code_of(AdminStub::connect(directory).status())));
  }
  const FakeDaemon daemon;
  const std::string& directory = daemon.directory();
  EXPECT_EQ(::chmod(directory.c_str(), 0755), 0);
  EXPECT_EQ(::chmod((directory + "/control.sock").c_str(), 0600), 0);
  EXPECT_EQ(::write(there[1], directory.data(), directory.size()),
            static_cast<ssize_t>(directory.size()));
  ::close(there[0]);
  ::close(there[1]);
  int result = 0;
  ASSERT_EQ(::waitpid(child, &result, 0), child);
  EXPECT_EQ(WEXITSTATUS(result), static_cast<int>(ErrorCode::kDenied));
}

}  // namespace
}  // namespace memlease::internal
