// Many processes that connect in one instant, as the ranks of a parallel program do.
#include <memlease/client.h>
#include <signal.h>

#include <chrono>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/forked.h"
#include "tests/support/options_for.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

using ::testing::Each;

std::string connect(const ConnectOptions& options) {
  try {
    static_cast<void>(Client::connect(options));
    return "connected";
  } catch (const Error& error) {
    return std::string(name_of(error.code())) + ": " + error.what();
  }
}

TEST(Crowd, AllOfManyProcessesConnectInOneInstant) {
  const PrivateDaemon daemon({"--log-level=warning"});
  ConnectOptions options = options_for(daemon);
  options.timeout = std::chrono::minutes(1);
  EXPECT_THAT(in_forked_children(200, [&] { return connect(options); }), Each("connected"));
}

TEST(Crowd, AnEndIsPutToTheWaitForADaemonThatIsStopped) {
  const PrivateDaemon daemon({"--log-level=warning"});
  ConnectOptions options = options_for(daemon);
  options.timeout = std::chrono::milliseconds(50);
  daemon.signal(SIGSTOP);
  const auto results = in_forked_children(8, [&] { return connect(options).substr(0, 7); });
  daemon.signal(SIGCONT);
  EXPECT_THAT(results, Each("Timeout"));
}

}  // namespace
}  // namespace memlease::testing
