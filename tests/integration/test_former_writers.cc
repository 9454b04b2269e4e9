// Processes that write once and end, as jobs of a scheduler do, beside a reader that lives long.
#include <memlease/memlease.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

// Shared files that this process has mapped and may not write.
std::size_t pages_of_others() {
  std::ifstream maps("/proc/self/maps");
  std::size_t found = 0;
  for (std::string line; std::getline(maps, line);) {
    const bool ours = line.find("/memfd:memlease") != std::string::npos;
    if (ours && line.find(" r--s ") != std::string::npos) ++found;
  }
  return found;
}

TEST(FormerWriters, AreForgottenByWhoeverReads) {
  constexpr std::uint64_t kWriters = 40;
  PrivateDaemon daemon({"--log-level=warning"});
  ConnectOptions connect;
  connect.directory = daemon.directory();
  connect.start = false;
  const Client client = Client::connect(connect);
  CreateOptions options;
  options.name = "a";
  options.dtype = dtype_of<std::uint64_t>();
  options.shape = {64};
  options.lifetime = Lifetime::Persistent;
  const Array array = client.create(options);
  for (std::uint64_t i = 1; i <= kWriters; ++i) {
    Peer writer(daemon.directory());
    ASSERT_TRUE(writer.ask("connect").ok());
    ASSERT_TRUE(writer.ask("put a 1000").ok());
    ReadOptions next;
    next.newer_than = i - 1;
    next.timeout = std::chrono::seconds(10);
    EXPECT_EQ(array.read(next).version(), i) << "while its writer lives";
  }
  EXPECT_LT(pages_of_others(), kWriters / 2);
  client.close();
}

}  // namespace
}  // namespace memlease::testing
