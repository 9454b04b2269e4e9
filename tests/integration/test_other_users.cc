// Who may do what with whose arrays, with real other users, and what somebody gets who takes more
// than he was given.
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/socket/connect_socket.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "tests/support/eventually.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"
#include "tests/support/temporary_folder.h"

namespace memlease::testing {
namespace {

constexpr Peer::User kOwner{4001, 4001};
const Peer::User kMember{4002, 4002, {4001}};
constexpr Peer::User kStranger{4003, 4003};

class Access : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::geteuid(), 0U) << "these tests become other users: run them as root";
  }
  Peer& connected(const Peer::User& user) {
    auto& peer = peers_[user.uid];
    if (peer == nullptr) {
      peer = std::make_unique<Peer>(daemon_.directory(), user);
      const Answer answer = peer->ask("connect");
      EXPECT_TRUE(answer.ok()) << answer.describe();
    }
    return *peer;
  }

  PrivateDaemon daemon_{{"--socket-mode=0666", "--warm-bytes=0", "--log-level=warning"}};
  std::map<uid_t, std::unique_ptr<Peer>> peers_;
};

enum class Right { kNone, kRead, kWrite };

TEST_F(Access, FollowsTheMode) {
  struct Row {
    const char* mode;
    Right member;
    Right stranger;
  };
  for (const Row& row : {Row{"600", Right::kNone, Right::kNone},
                         {"640", Right::kRead, Right::kNone},
                         {"660", Right::kWrite, Right::kNone},
                         {"620", Right::kNone, Right::kNone},  // writing needs reading
                         {"604", Right::kNone, Right::kRead},
                         {"644", Right::kRead, Right::kRead},
                         {"664", Right::kWrite, Right::kRead},
                         {"606", Right::kNone, Right::kWrite},
                         {"666", Right::kWrite, Right::kWrite}}) {
    Peer& owner = connected(kOwner);
    ASSERT_TRUE(owner.ask(fmt::format("create a 3 {} 64 session", row.mode)).ok());
    ASSERT_TRUE(owner.ask("put a 1000").ok());
    const auto check = [&](const Peer::User& user, Right right) {
      SCOPED_TRACE(fmt::format("uid {} on mode {}", user.uid, row.mode));
      Peer& peer = connected(user);
      const bool reads = right != Right::kNone;
      const bool writes = right == Right::kWrite;
      EXPECT_EQ(peer.ask("exists a").text, reads ? "1" : "0");
      EXPECT_EQ(peer.ask("list").text, reads ? "a" : "");
      const Answer read = peer.ask("read a 0 1000");
      // A name that may not be read looks like one that is not there.
      EXPECT_EQ(read.code, reads ? "" : "NotFound");
      if (!reads) {
        EXPECT_EQ(read.text, [&] {
          std::string text = peer.ask("read b 0 1000").text;
          return text.replace(text.find("'b'"), 3, "'a'");
        }());
      }
      const Answer put = peer.ask("put a 1000");
      EXPECT_EQ(put.code, writes ? "" : reads ? "Denied" : "NotFound");
      peer.ask("release a");
      if (!writes) {
        EXPECT_EQ(peer.ask("withdraw a").code, reads ? "Denied" : "NotFound");
      }
      if (reads) peer.ask("close a");
      const Answer taken = peer.ask("create a 3 666 64 session");
      EXPECT_EQ(taken.code, "AlreadyExists");
    };
    check(kMember, row.member);
    check(kStranger, row.stranger);
    ASSERT_TRUE(owner.ask("withdraw a").ok());
  }
  EXPECT_EQ(daemon_.unsettled(peers_.size()), "");
}

TEST_F(Access, GivesOtherUsersNoWayToWriteWhatTheyMayRead) {
  Peer& owner = connected(kOwner);
  ASSERT_TRUE(owner.ask("create open 3 644 8192 session").ok());
  ASSERT_TRUE(owner.ask("create closed 3 600 8192 session").ok());
  ASSERT_TRUE(owner.ask("put open 1000").ok());
  ASSERT_TRUE(owner.ask("put closed 1000").ok());
  ASSERT_TRUE(owner.ask("read open 0 1000").ok());

  // The reader may map the board, the bytes, and the owner's rows; nothing of that can be changed,
  // and guessed numbers of files give nothing of the other array.
  Peer& stranger = connected(kStranger);
  ASSERT_TRUE(stranger.ask("read open 0 1000").ok());
  const Answer assault = stranger.ask("assault");
  ASSERT_TRUE(assault.ok()) << assault.describe();
  EXPECT_GE(assault.number(0), 3) << assault.text;
  EXPECT_EQ(assault.number(1), 0) << assault.text;
  EXPECT_THAT(assault.text, ::testing::EndsWith(" 0 ")) << "some way worked";
  const std::uint64_t files_of_stranger = assault.number(0);

  // The owner is given more files, and those of the arrays for writing.
  const Answer own = owner.ask("assault");
  EXPECT_GT(own.number(0), files_of_stranger);
  EXPECT_GE(own.number(1), 2);

  EXPECT_TRUE(owner.ask("verify open").ok());
}

TEST_F(Access, AReaderIsToldWhenAnotherUserHasTakenTheName) {
  Peer& reader = connected(kMember);
  Peer& stranger = connected(kStranger);
  ASSERT_TRUE(stranger.ask("create u 3 644 64 session").ok());
  const std::string of_owner = fmt::format("open u {}", kOwner.uid);
  for (int i = 0; i < 2; ++i) {
    const Answer refused = reader.ask(of_owner);
    EXPECT_EQ(refused.code, "Denied");
    EXPECT_THAT(refused.text, ::testing::HasSubstr("'u' is an array of uid 4003, not of uid 4001"));
    EXPECT_TRUE(reader.ask("open u").ok()) << "and the second time it is open already";
  }
  ASSERT_TRUE(stranger.ask("withdraw u").ok());
  ASSERT_TRUE(connected(kOwner).ask("create u 3 644 64 session").ok());
  EXPECT_TRUE(reader.ask(of_owner).ok());
}

TEST_F(Access, ReservedNamesAreForTheirUserAlone) {
  const TemporaryFolder folder;
  const std::string settings = folder.path() + "/memleased.toml";
  const auto reserve = [&](uid_t uid) {
    std::ofstream(settings) << fmt::format("[names]\n\"sim/*\" = {{owner = {}}}\n", uid);
  };
  reserve(kOwner.uid);
  const PrivateDaemon daemon({"--socket-mode=0666", "--config=" + settings});
  Peer owner(daemon.directory(), kOwner);
  Peer stranger(daemon.directory(), kStranger);
  ASSERT_TRUE(owner.ask("connect").ok());
  ASSERT_TRUE(stranger.ask("connect").ok());
  const Answer refused = stranger.ask("create sim/u 3 644 64 session");
  EXPECT_EQ(refused.code, "Denied");
  EXPECT_THAT(refused.text, ::testing::HasSubstr("names like 'sim/*' are reserved for user 4001"));
  EXPECT_TRUE(stranger.ask("create mine 3 644 64 session").ok());
  EXPECT_TRUE(owner.ask("create sim/u 3 644 64 session").ok());

  reserve(kStranger.uid);
  daemon.signal(SIGHUP);
  EXPECT_TRUE(eventually([&] { return stranger.ask("create sim/v 3 644 64 session").ok(); }));
  EXPECT_EQ(owner.ask("create sim/w 3 644 64 session").code, "Denied");
}

TEST_F(Access, OneUsersProcessesLeaveOthersDescriptors) {
  const PrivateDaemon daemon({"--socket-mode=0666"});
  const rlimit few{128, 128};
  ASSERT_EQ(prlimit(daemon.pid(), RLIMIT_NOFILE, &few, nullptr), 0);
  daemon.signal(SIGHUP);
  ASSERT_TRUE(
      eventually([&] { return daemon.log().find("settings read again") != std::string::npos; }));
  std::vector<std::unique_ptr<Peer>> crowd;
  Answer last;
  do {
    crowd.push_back(std::make_unique<Peer>(daemon.directory(), kStranger));
    last = crowd.back()->ask("connect");
  } while (last.ok() && crowd.size() < 20);
  EXPECT_EQ(crowd.size(), 9U) << "eight may have 56, the half of what is not root's";
  EXPECT_EQ(last.code, "QuotaExceeded") << last.describe();
  EXPECT_THAT(last.text, ::testing::HasSubstr("of the 128 descriptors that the daemon may open"));
  Peer owner(daemon.directory(), kOwner);
  EXPECT_TRUE(owner.ask("connect").ok());
  EXPECT_TRUE(owner.ask("create a 3 600 64 session").ok());
}

TEST_F(Access, OneUsersConnectionsLeaveOthersDescriptors) {
  const PrivateDaemon daemon({"--socket-mode=0666", "--log-level=info"});
  const rlimit few{128, 128};
  ASSERT_EQ(prlimit(daemon.pid(), RLIMIT_NOFILE, &few, nullptr), 0);
  daemon.signal(SIGHUP);
  ASSERT_TRUE(
      eventually([&] { return daemon.log().find("settings read again") != std::string::npos; }));
  std::vector<internal::ConnectedSocket> crowd;
  ASSERT_EQ(seteuid(kStranger.uid), 0);
  for (int i = 0; i < 200; ++i) {
    auto socket = internal::connect_socket(daemon.directory(), "control.sock", SOCK_STREAM);
    if (socket.ok()) crowd.push_back(*std::move(socket));
  }
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_TRUE(eventually([&] { return daemon.log().find("of the 128") != std::string::npos; }));
  EXPECT_LT(daemon.open_files(), 64U) << "a connection that is silent is one of three";
  Peer owner(daemon.directory(), kOwner);
  EXPECT_TRUE(owner.ask("connect").ok());
  EXPECT_TRUE(owner.ask("create a 3 600 64 session").ok());
}

TEST_F(Access, ADaemonThatCannotKeepPagesInItsFilesSaysSoWhereOthersMayConnect) {
  const auto warns = [](const std::string& mode) {
    const PrivateDaemon daemon({"--socket-mode=" + mode, "--log-level=warning"}, kOwner.uid);
    return daemon.log().find("CAP_LINUX_IMMUTABLE") != std::string::npos;
  };
  EXPECT_TRUE(warns("0666"));
  EXPECT_FALSE(warns("0600"));
}

std::string command_line_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", pid));
  return {std::istreambuf_iterator<char>(file), {}};
}

// Who reads it can keep the lock of the daemon's memory, which the daemon then waits for.
TEST_F(Access, NobodyReadsTheCommandLineOfADaemonThatOthersMayConnectTo) {
  EXPECT_EQ(command_line_of(daemon_.pid()), "");
  const PrivateDaemon own({"--socket-mode=0600", "--log-level=warning"});
  EXPECT_NE(command_line_of(own.pid()), "");
  EXPECT_TRUE(connected(kStranger).ask("create a 3 600 1048576 session").ok()) << "it has its heap";
}

TEST_F(Access, OfASocketIsTheSocketsMode) {
  PrivateDaemon closed({"--socket-mode=0600"});
  Peer stranger(closed.directory(), kStranger);
  EXPECT_EQ(stranger.ask("connect").code, "Denied");
}

}  // namespace
}  // namespace memlease::testing
