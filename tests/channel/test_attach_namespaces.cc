// A daemon in namespaces of its own, which its client is outside of. Apart from the other tests,
// since a process that has threads, as ThreadSanitizer's have, cannot enter a user namespace.
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "client/channel/attach_client.h"
#include "gmock/gmock.h"
#include "tests/channel/attach_fixture.h"
#include "wire/error.h"

#ifndef SO_PEERPIDFD  // Linux 6.5
#define SO_PEERPIDFD 77
#endif

namespace memlease::testing {
namespace {

using internal::AttachClient;
using server::PidfdWay;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::ErrorCode;

constexpr uid_t kClientsUid = 1000;
constexpr const char* kRefusalOfOldKernels =
    "outside of the daemon's PID namespace, and this kernel (";

wire::UniqueFd pidfd_of(pid_t pid) {
  return wire::UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

bool kernel_has_peer_pidfds() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return false;
  const wire::UniqueFd one(ends[0]);
  const wire::UniqueFd other(ends[1]);
  int fd = -1;
  socklen_t size = sizeof(fd);
  const bool has = ::getsockopt(one.get(), SOL_SOCKET, SO_PEERPIDFD, &fd, &size) == 0;
  const wire::UniqueFd pidfd(fd);
  return has;
}

class AttachAcrossNamespaces : public AttachFixture {
 protected:
  // The daemon, as the first process of new namespaces. `ready` opens when it serves; what `judge`
  // says of it is what the child says.
  Child daemon_in(int namespaces, Gate& ready, const Child::Work& judge,
                  const std::vector<int>& keep = {}) {
    std::vector<int> kept = ready.fds();
    kept.insert(kept.end(), keep.begin(), keep.end());
    return Child(
        [=, this, &ready]() -> std::string {
          if (::unshare(namespaces) != 0) return "this test needs root";
          if ((namespaces & CLONE_NEWUSER) != 0) std::ofstream("/proc/self/uid_map") << "0 0 1";
          Child inside(
              [&]() -> std::string {
                static_cast<void>(loop.release());  // it has lost its descriptors
                loop = *server::EventLoop::create();
                serve();
                ready.open();
                return judge();
              },
              kept);
          return inside.reap();
        },
        kept);
  }

  std::string refusal_by_daemon_in(int namespaces) {
    Gate ready;
    Child daemon = daemon_in(namespaces, ready, [&]() -> std::string {
      run_until([&] { return !log.empty() || !host.events.empty(); });
      return log.empty() ? "not refused" : "";
    });
    ready.wait();
    Child client([&]() -> std::string {
      if (::setuid(kClientsUid) != 0) return "this test needs root";
      return wire::message_of(AttachClient::connect(directory).status());
    });
    const std::string said = finish(client);
    EXPECT_EQ(finish(daemon), "");
    return said;
  }
};

TEST_F(AttachAcrossNamespaces, RefusesAUserWithoutANumberInTheDaemonsNamespace) {
  EXPECT_THAT(refusal_by_daemon_in(CLONE_NEWUSER), HasSubstr("has no number in the daemon's user"));
}

TEST_F(AttachAcrossNamespaces, BeforeLinux65RefusesAProcessWithoutANumberAndSaysWhy) {
  options.pidfd_way = PidfdWay::kByNumber;
  EXPECT_THAT(refusal_by_daemon_in(CLONE_NEWPID), HasSubstr(kRefusalOfOldKernels));
}

// It hangs up first and exits later, so that the two are told apart.
TEST_F(AttachAcrossNamespaces, KnowsAProcessWithoutANumberByItsPidfdUntilItExits) {
  if (!kernel_has_peer_pidfds()) {
    EXPECT_THAT(refusal_by_daemon_in(CLONE_NEWPID), HasSubstr(kRefusalOfOldKernels));
    return;
  }
  Gate ready;
  Gate hung_up;
  Child daemon = daemon_in(
      CLONE_NEWPID, ready,
      [&]() -> std::string {
        run_until([&] { return host.has("hang_up 1"); });
        EXPECT_THAT(host.events, ElementsAre("open 1", "hang_up 1"));
        hung_up.open();
        run_until([&] { return host.has("exited 1"); });
        EXPECT_THAT(host.events, ElementsAre("open 1", "hang_up 1", "exited 1"));
        EXPECT_FALSE(host.peers[0].has_pid());
        EXPECT_EQ(host.peers[0].uid, kClientsUid);
        EXPECT_EQ(host.peers[0].command, "in another PID namespace");
        return HasFailure() ? "the daemon's half failed" : "";
      },
      hung_up.fds());
  ready.wait();
  Child client([&]() -> std::string {
    if (::setuid(kClientsUid) != 0) return "this test needs root";
    const auto attached = AttachClient::connect(directory);
    if (!attached.ok()) return wire::message_of(attached.status());
    ::closefrom(0);
    while (true) ::pause();
  });
  hung_up.wait();
  client.kill();
  EXPECT_EQ(finish(client), "signal 9");
  EXPECT_EQ(finish(daemon), "");
}

// As `unshare --pid` leaves it: the numbers in /proc are those of another namespace.
TEST_F(AttachAcrossNamespaces, AsksNothingOfAForeignProc) {
  Gate ready;
  int looks = 0;
  options.look_at_program = [&looks](pid_t) -> std::optional<server::ProgramMark> {
    ++looks;
    return 1;
  };
  Child daemon = daemon_in(CLONE_NEWPID, ready, [&]() -> std::string {
    Child client([&]() -> std::string {
      const auto attached = AttachClient::connect(directory);
      return attached.ok() ? "" : wire::message_of(attached.status());
    });
    EXPECT_EQ(finish(client), "");
    EXPECT_TRUE(host.peers.at(0).has_pid());
    EXPECT_EQ(host.peers.at(0).command, "");
    EXPECT_EQ(looks, 0);
    return HasFailure() ? "the daemon's half failed" : "";
  });
  ready.wait();
  EXPECT_EQ(finish(daemon), "");
}

// Neither of them has a number, and so their stamps are equal.
TEST_F(AttachAcrossNamespaces, RefusesAForkedChildOfAProcessWithoutANumber) {
  if (!kernel_has_peer_pidfds()) {
    EXPECT_THAT(refusal_by_daemon_in(CLONE_NEWPID), HasSubstr(kRefusalOfOldKernels));
    return;
  }
  // Linux 6.9 can.
  const bool kernel_tells_them_apart =
      !server::is_same_process(pidfd_of(::getpid()).get(), pidfd_of(::getppid()).get());
  Gate ready;
  Child daemon = daemon_in(CLONE_NEWPID, ready, [&]() -> std::string {
    run_until([&] { return host.has("exited 1"); });
    EXPECT_EQ(std::ranges::count(host.events, "fetch 1"), kernel_tells_them_apart ? 1 : 2);
    return HasFailure() ? "the daemon's half failed" : "";
  });
  ready.wait();
  Child client([&]() -> std::string {
    RawClient raw(directory);
    if (!raw.attach()) return "cannot attach";
    raw.send(wire::FetchFrame{{{wire::FileId{8}}}}, 1);
    if (!raw.receive()) return "its own use of the session is refused";
    Child forked(
        [&] {
          raw.send(wire::FetchFrame{{{wire::FileId{8}}}}, 2);
          if (!kernel_tells_them_apart) return std::string(raw.receive() ? "" : "no answer");
          return raw.expect_end_by(ErrorCode::kForkedClient);
        },
        {raw.fd()});
    return forked.reap();
  });
  EXPECT_EQ(finish(client), "");
  EXPECT_EQ(finish(daemon), "");
}

// Who sends comes as a descriptor, and there is no other room for one.
TEST_F(AttachAcrossNamespaces, TakesNoDescriptorsFromAProcessWithoutANumber) {
  if (!kernel_has_peer_pidfds()) {
    EXPECT_THAT(refusal_by_daemon_in(CLONE_NEWPID), HasSubstr(kRefusalOfOldKernels));
    return;
  }
  Gate ready;
  Child daemon = daemon_in(CLONE_NEWPID, ready, [&]() -> std::string {
    const std::size_t before = open_files().size();
    run_until([&] { return host.has("exited 1"); });
    EXPECT_EQ(open_files().size(), before);
    return HasFailure() ? "the daemon's half failed" : "";
  });
  ready.wait();
  Child client([&]() -> std::string {
    RawClient raw(directory);
    if (!raw.attach()) return "cannot attach";
    const auto fetch = wire::encode_frame({1, wire::FetchFrame{{{wire::FileId{8}}}}});
    if (!raw.send_bytes(fetch, raw.fd())) return "";  // by the kernel, from 6.16 on
    return raw.expect_end_by(ErrorCode::kInvalidArgument);
  });
  EXPECT_EQ(finish(client), "");
  EXPECT_EQ(finish(daemon), "");
}

TEST_F(AttachAcrossNamespaces, SaysThatItHasNoDescriptorForASenderWithoutANumber) {
  if (!kernel_has_peer_pidfds()) {
    EXPECT_THAT(refusal_by_daemon_in(CLONE_NEWPID), HasSubstr(kRefusalOfOldKernels));
    return;
  }
  Gate ready;
  Gate exhausted;
  Child daemon = daemon_in(
      CLONE_NEWPID, ready,
      [&]() -> std::string {
        run_until([&] { return host.has("open 1"); });
        const wire::UniqueFd next(::dup(STDIN_FILENO));
        const auto none_free = static_cast<rlim_t>(next.get());
        const rlimit limit{none_free, none_free};
        if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return "cannot set the limit";
        exhausted.open();
        run_until([&] { return host.has("exited 1"); });
        return host.has("fetch 1") ? "served" : "";
      },
      exhausted.fds());
  ready.wait();
  Child client(
      [&]() -> std::string {
        RawClient raw(directory);
        if (!raw.attach()) return "cannot attach";
        exhausted.wait();
        raw.send(wire::FetchFrame{{{wire::FileId{8}}}}, 1);
        return raw.expect_end_by(ErrorCode::kBusy);
      },
      exhausted.fds());
  EXPECT_EQ(finish(client), "");
  EXPECT_EQ(finish(daemon), "");
}

}  // namespace
}  // namespace memlease::testing
