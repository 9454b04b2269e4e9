#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/config/service_environment.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using ::testing::HasSubstr;

constexpr const char* kVariables[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
                                      "LISTEN_PID",    "LISTEN_FDS",    "LISTEN_FDNAMES"};

class ServiceEnvironmentTest : public ::testing::Test {
 public:
  // Whatever came of it, nothing may be left for a child process.
  ~ServiceEnvironmentTest() override {
    for (const char* name : kVariables) EXPECT_EQ(::getenv(name), nullptr) << name;
  }

 protected:
  ServiceEnvironmentTest() {
    for (const char* name : kVariables) ::unsetenv(name);
  }
  static void set(const char* name, const std::string& value) { ::setenv(name, value.c_str(), 1); }
  const std::string mine_ = std::to_string(::getpid());
};

TEST_F(ServiceEnvironmentTest, IsEmptyWithoutAServiceManager) {
  const auto environment = ServiceEnvironment::take();
  ASSERT_TRUE(environment.ok()) << environment.status();
  EXPECT_EQ(environment->notify_socket, "");
  EXPECT_EQ(environment->watchdog.count(), 0);
  EXPECT_TRUE(environment->sockets.empty());
}

TEST_F(ServiceEnvironmentTest, HasTheManagersAddressAndTheWatchdogsTime) {
  set("NOTIFY_SOCKET", "/run/systemd/notify");
  set("WATCHDOG_USEC", "30000000");
  set("WATCHDOG_PID", mine_);
  const auto environment = ServiceEnvironment::take();
  ASSERT_TRUE(environment.ok()) << environment.status();
  EXPECT_EQ(environment->notify_socket, "/run/systemd/notify");
  EXPECT_EQ(environment->watchdog, std::chrono::seconds(30));
}

TEST_F(ServiceEnvironmentTest, AWatchdogThatIsNotForUsOrNoNumberIsNone) {
  for (const auto& [time, pid] : {std::pair<std::string, std::string>{"30000000", "1"},
                                  {"soon", mine_},
                                  {"-1", mine_},
                                  {"0", ""}}) {
    set("WATCHDOG_USEC", time);
    set("WATCHDOG_PID", pid);
    const auto environment = ServiceEnvironment::take();
    ASSERT_TRUE(environment.ok()) << environment.status();
    EXPECT_EQ(environment->watchdog.count(), 0) << time;
  }
}

TEST_F(ServiceEnvironmentTest, SocketsForAnotherProcessStayOpen) {
  set("LISTEN_PID", "1");
  set("LISTEN_FDS", "1");
  const auto environment = ServiceEnvironment::take();
  ASSERT_TRUE(environment.ok()) << environment.status();
  EXPECT_TRUE(environment->sockets.empty());
}

TEST_F(ServiceEnvironmentTest, ANumberOfSocketsThatCannotBeIsExplained) {
  for (const char* count : {"", "two", "-1", "65", "1000000000000000000000"}) {
    set("LISTEN_PID", mine_);
    set("LISTEN_FDS", count);
    set("LISTEN_FDNAMES", "a");
    const auto environment = ServiceEnvironment::take();
    EXPECT_EQ(wire::code_of(environment.status()), wire::ErrorCode::kInvalidArgument) << count;
    EXPECT_THAT(wire::message_of(environment.status()), HasSubstr("LISTEN_FDS is '"));
  }
}

}  // namespace
}  // namespace memlease::server
