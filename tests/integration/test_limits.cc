// Quotas and memory: what is too much is refused with the numbers, costs nothing, and comes back.
#include <sys/resource.h>
#include <sys/socket.h>

#include <string>
#include <vector>

#include "client/socket/connect_socket.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "memlease/v1/admin.pb.h"
#include "tests/support/eventually.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

using ::testing::HasSubstr;

struct Limit {
  std::string name;
  std::vector<std::string> flags;
  std::string fits;     // can be made...
  std::string exceeds;  // but not this beside it
  std::string code;
  std::string says;
};

class Limits : public ::testing::TestWithParam<Limit> {};

TEST_P(Limits, RefuseWhatIsTooMuchAndNoMore) {
  const Limit& limit = GetParam();
  std::vector<std::string> flags = limit.flags;
  flags.push_back("--log-level=warning");
  PrivateDaemon daemon(flags);
  {
    Peer peer(daemon.directory());
    ASSERT_TRUE(peer.ask("connect").ok());
    for (int round = 0; round < 50; ++round) {
      const Answer fits = peer.ask(limit.fits);
      ASSERT_TRUE(fits.ok()) << "round " << round << ": " << fits.describe();
      const Answer refused = peer.ask(limit.exceeds);
      ASSERT_EQ(refused.code, limit.code) << refused.describe();
      ASSERT_THAT(refused.text, HasSubstr(limit.says));
      const auto status = daemon.admin().status();
      ASSERT_TRUE(status.ok());
      ASSERT_EQ(status->arrays(), 1U) << "the refused one is in the books";
      ASSERT_TRUE(peer.ask("put a 1000").ok());
      ASSERT_TRUE(peer.ask("withdraw a").ok());
    }
  }
  EXPECT_EQ(daemon.unsettled(), "");
}

INSTANTIATE_TEST_SUITE_P(All, Limits,
                         ::testing::Values(Limit{"bytes",
                                                 {"--quota-bytes=1MiB"},
                                                 "create a 1 600 65536 session",
                                                 "create b 1 600 131072 session",
                                                 "QuotaExceeded",
                                                 "1048576 bytes"},
                                           Limit{"arrays",
                                                 {"--quota-arrays=1"},
                                                 "create a 1 600 64 session",
                                                 "create b 1 600 64 session",
                                                 "QuotaExceeded",
                                                 "1 of its 1 arrays"},
                                           Limit{"memory",
                                                 {"--memory-limit-bytes=64MiB", "--warm-bytes=0"},
                                                 "create a 1 600 1048576 session",
                                                 "create b 1 600 16777216 session",
                                                 "OutOfMemory",
                                                 "limit of 67108864 bytes"},
                                           Limit{
                                               "warm_memory",
                                               {"--memory-limit-bytes=64MiB", "--warm-bytes=64MiB"},
                                               "create a 2 600 2097152 persistent",
                                               "create b 8 600 2097152 session",
                                               "OutOfMemory",
                                               "limit of 67108864 bytes"},
                                           Limit{"overflow",
                                                 {},
                                                 "create a 1 600 64 session",
                                                 "create b 64 600 1152921504606846975 session",
                                                 "InvalidArgument",
                                                 "bytes"}),
                         [](const auto& param) { return param.param.name; });

// Memory is made while other calls go on: all of them together keep within the quota.
TEST(Limits, HoldForCreatesAtOnce) {
  PrivateDaemon daemon({"--quota-bytes=72MiB", "--warm-bytes=0", "--log-level=warning"});
  constexpr std::size_t kCreates = 6;
  std::vector<std::unique_ptr<Peer>> peers;
  for (std::size_t i = 0; i < kCreates; ++i) {
    peers.push_back(std::make_unique<Peer>(daemon.directory()));
    ASSERT_TRUE(peers.back()->ask("connect").ok());
  }
  for (std::size_t i = 0; i < kCreates; ++i)
    peers.at(i)->say(fmt::format("create a{} 1 600 8388608 session", i));
  int made = 0;
  for (const auto& peer : peers) {
    const Answer answer = peer->answer();
    made += answer.ok() ? 1 : 0;
    EXPECT_TRUE(answer.ok() || answer.code == "QuotaExceeded") << answer.describe();
  }
  EXPECT_EQ(made, 1);
  const auto status = daemon.admin().status();
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->memory_bytes(), std::uint64_t{64} << 20) << "more than one segment";
  EXPECT_EQ(status->warm_bytes(), 0U);
}

TEST(Limits, OfDescriptorsCountProcessesAndTheirFiles) {
  PrivateDaemon daemon({"--quota-descriptors=21", "--warm-bytes=0", "--log-level=error"});
  Peer first(daemon.directory());
  Peer second(daemon.directory());
  ASSERT_TRUE(first.ask("connect").ok());
  ASSERT_TRUE(second.ask("connect").ok());
  ASSERT_TRUE(first.ask("create a 3 600 64 session").ok())
      << "a segment and who writes it, a board, takeover rows, and what holds their pages";
  const Answer refused = first.ask("put a 1000");
  EXPECT_EQ(refused.code, "QuotaExceeded") << refused.describe();
  EXPECT_THAT(refused.text, HasSubstr("21 of its 21 descriptors"));
  const auto status = daemon.admin().status();
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->quotas(0).descriptors(), 21U);
  EXPECT_EQ(status->quotas(0).descriptors_limit(), 21U);
  second.kill();
  EXPECT_TRUE(eventually([&] { return first.ask("put a 1000").ok(); }));
}

TEST(Limits, OfSessionsCountProcesses) {
  PrivateDaemon daemon({"--quota-sessions=2", "--log-level=error"});
  Peer first(daemon.directory());
  ASSERT_TRUE(first.ask("connect").ok());
  {
    Peer second(daemon.directory());
    ASSERT_TRUE(second.ask("connect").ok());
    ASSERT_TRUE(second.ask("connect").ok()) << "one process, one session";
    Peer third(daemon.directory());
    const Answer refused = third.ask("connect");
    EXPECT_EQ(refused.code, "QuotaExceeded") << refused.describe();
    EXPECT_THAT(refused.text, HasSubstr("2 of its 2 sessions"));
  }
  EXPECT_EQ(daemon.unsettled(1), "");
  Peer fourth(daemon.directory());
  EXPECT_TRUE(fourth.ask("connect").ok());
}

// Not even the one that is kept to refuse a connection may be opened below this limit.
TEST(DescriptorLimit, BelowWhatIsOpenIsTold) {
  PrivateDaemon daemon({"--log-level=warning"});
  rlimit before{};
  ASSERT_EQ(::prlimit(daemon.pid(), RLIMIT_NOFILE, nullptr, &before), 0);
  const rlimit none{3, before.rlim_max};
  ASSERT_EQ(::prlimit(daemon.pid(), RLIMIT_NOFILE, &none, nullptr), 0);
  const auto waiting = internal::connect_socket(daemon.directory(), "control.sock", SOCK_STREAM);
  ASSERT_TRUE(waiting.ok());
  EXPECT_TRUE(eventually(
      [&] { return daemon.log().find("no file descriptor is left") != std::string::npos; }));
  ASSERT_EQ(::prlimit(daemon.pid(), RLIMIT_NOFILE, &before, nullptr), 0);
  EXPECT_TRUE(daemon.admin().status().ok());
}

}  // namespace
}  // namespace memlease::testing
