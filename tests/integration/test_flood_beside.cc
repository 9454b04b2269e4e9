// A flood of connections of one user, and what another one notices of it.
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "client/channel/attach_client.h"
#include "gmock/gmock.h"
#include "tests/integration/raw_control.h"
#include "tests/support/bystander.h"
#include "tests/support/eventually.h"
#include "tests/support/goal.h"
#include "tests/support/unix_socket.h"
#include "wire/unique_fd.h"

namespace memlease::testing {
namespace {

using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

constexpr uid_t kFloodingUid = 4003;
constexpr Peer::User kBesideFlood{4001, 4001};

// So many descriptors for a process, this one or another, or what the machine allows, if that is
// less; its own limit as before in the end.
class FileLimit {
 public:
  explicit FileLimit(rlim_t files, pid_t pid = 0) : pid_(pid) {
    EXPECT_EQ(::prlimit(pid, RLIMIT_NOFILE, nullptr, &before_), 0);
    const rlimit limit{std::min(files, before_.rlim_max), before_.rlim_max};
    EXPECT_EQ(::prlimit(pid, RLIMIT_NOFILE, &limit, nullptr), 0);
    files_ = limit.rlim_cur;
  }
  ~FileLimit() { ::prlimit(pid_, RLIMIT_NOFILE, &before_, nullptr); }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

  rlim_t files() const { return files_; }

 private:
  const pid_t pid_;
  rlim_t files_ = 0;
  rlimit before_{};
};

// Connections that say nothing, to both sockets in turn: so many are kept, and each new one then
// takes the oldest one's place.
class ConnectionFlood {
 public:
  ConnectionFlood(const PrivateDaemon& daemon, std::size_t most)
      : paths_{daemon.directory() + "/attach.sock", daemon.directory() + "/control.sock"},
        sockets_(most) {}

  // Until the time is over and there have been so many.
  void go_on(milliseconds time) {
    const auto end = Steady::now() + time;
    EXPECT_EQ(::seteuid(kFloodingUid), 0);
    while (made_ < sockets_.size() || Steady::now() < end) {
      const std::size_t kind = made_ % 2;
      auto socket =
          connect_unix(paths_[kind], (kind == 0 ? SOCK_SEQPACKET : SOCK_STREAM) | SOCK_NONBLOCK);
      if (socket) {
        sockets_[made_++ % sockets_.size()] = std::move(socket);
      } else {
        EXPECT_EQ(errno, EAGAIN);
        ::sched_yield();  // the backlog is full
      }
    }
    EXPECT_EQ(::seteuid(0), 0);
  }
  void end() { sockets_.clear(); }
  std::size_t made() const { return made_; }

 private:
  const std::string paths_[2];
  std::vector<wire::UniqueFd> sockets_;
  std::size_t made_ = 0;
};

void await_service(const PrivateDaemon& daemon, uid_t uid) {
  EXPECT_TRUE(eventually([&] {
    EXPECT_EQ(::seteuid(uid), 0);
    const auto session = internal::AttachClient::connect(daemon.directory());
    EXPECT_EQ(::seteuid(0), 0);
    return session.ok() && RawControl(daemon.directory(), uid).list(credential_of(**session)).ok();
  }));
}

class FloodBeside : public ::testing::TestWithParam<rlim_t> {};
INSTANTIATE_TEST_SUITE_P(Files, FloodBeside, ::testing::Values(256, 65'536),
                         ::testing::PrintToStringParamName());

TEST_P(FloodBeside, OthersAreServedAndServiceReturns) {
  const std::size_t connections = goal(300, 10'000);
  const milliseconds time(goal(50, 2'000));
  const FileLimit own_files(connections + 1'000);
  const PrivateDaemon daemon({"--socket-mode=0666", "--log-level=info"});
  const PrivateDaemon other({"--socket-mode=0666", "--log-level=info"});
  const FileLimit files(GetParam(), daemon.pid());
  const FileLimit files_of_other(GetParam(), other.pid());
  for (const PrivateDaemon* each : {&daemon, &other}) {
    each->signal(SIGHUP);
    ASSERT_TRUE(
        eventually([&] { return each->log().find("settings read again") != std::string::npos; }));
  }

  Bystander bystander(daemon, kBesideFlood);
  std::vector<double> back_ms;
  std::size_t made = 0;
  const auto flood_other = [&] {
    ConnectionFlood flood(other, connections);
    return bystander.during([&] { flood.go_on(time); });
  };
  const auto flood_this = [&] {
    ConnectionFlood flood(daemon, connections);
    const CallTimes times = bystander.during([&] { flood.go_on(time); });
    made += flood.made();
    flood.end();  // takes two thirds of 100 ms itself
    const auto end = Steady::now();
    for (const uid_t uid : {kBesideFlood.uid, kFloodingUid}) await_service(daemon, uid);
    back_ms.push_back(std::chrono::duration<double, std::milli>(Steady::now() - end).count());
    return times;
  };
  const auto [idle, elsewhere, flooded] =
      measure_in_turn(goal(1, 11), [&] { return bystander.idle(time); }, flood_other, flood_this);
  const double back = std::ranges::max(back_ms);
  if (is_proving()) expect_little_beside_flood({idle, elsewhere, flooded});
  EXPECT_LT(back, static_cast<double>(goal(10'000, 100)));
  reached(
      "{} connections, {} files: calls of another user take 50 % {} us, 99 % {} us; beside a "
      "flood of another daemon {} us, {} us; beside that of this one {} us, {} us; all are served "
      "{:.0f} ms after its end at the latest",
      made, files.files(), idle.p50_us, idle.p99_us, elsewhere.p50_us, elsewhere.p99_us,
      flooded.p50_us, flooded.p99_us, back);
}

}  // namespace
}  // namespace memlease::testing
