// A process number is used again, very often, at each step from connecting to the first call: the
// connection of the process that had it before is of no use to whoever has it now, nor to others.
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "tests/channel/attach_fixture.h"
#include "tests/support/goal.h"
#include "tests/support/unix_socket.h"

namespace memlease::testing {
namespace {

using wire::FileId;

// What the former process has done with its connection before it exits.
enum class Done { kConnected, kAccepted, kChallenged, kAttached };
constexpr std::array kAllDone{Done::kConnected, Done::kAccepted, Done::kChallenged,
                              Done::kAttached};
// Who goes on with it: the process that has the number now, or one with another number.
enum class Heir { kSameNumber, kOtherNumber };

struct Reuse {
  Done done;
  Heir heir;
};

class AttachReuses : public EachPidfdWay {
 protected:
  // One process after the other writes to it, as the test waits for each.
  struct Pipe {
    Pipe() { EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0); }
    ~Pipe() {
      for (const int end : ends) ::close(end);
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;
    template <typename T>
    void give(const T& value) const {
      if (::write(ends[1], &value, sizeof value) != sizeof value) ::_exit(1);
    }
    template <typename T>
    T take() const {
      T value{};
      EXPECT_EQ(::read(ends[0], &value, sizeof value), static_cast<ssize_t>(sizeof value));
      return value;
    }
    std::array<int, 2> ends{};
  };

  // Both sides of a fork go on; a child dies with the test.
  template <typename Fork>
  static pid_t fork_by(const Fork& fork, const std::function<void()>& work) {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    work();
    ::_exit(0);
  }
  static pid_t fork_with_number(pid_t number) {
    clone_args arguments{};
    arguments.exit_signal = SIGCHLD;
    arguments.set_tid = reinterpret_cast<std::uintptr_t>(&number);
    arguments.set_tid_size = 1;
    return static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof(arguments)));
  }
  static void end(pid_t pid) {
    ::kill(pid, SIGKILL);
    EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);
  }

  // In the former process.
  void connect_and(Done done, int socket, const Pipe& said) const {
    const sockaddr_un address = unix_address(directory + "/attach.sock");
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return;
    RawClient client{wire::UniqueFd(socket)};
    wire::Nonce nonce{};
    if (done >= Done::kChallenged) {
      client.send(wire::HelloFrame{});
      const auto challenge = client.receive();
      if (!challenge) return;
      nonce = std::get<wire::ChallengeFrame>(challenge->payload).nonce;
    }
    if (done == Done::kAttached) {
      client.send(wire::ProofFrame{nonce});
      if (!client.receive()) return;
    }
    said.give(nonce);
    ::pause();
  }
  // In the heir, which says when it has sent something, and then whether it was given anything.
  static void go_on_after(Done done, int socket, const wire::Nonce& nonce, const Pipe& said) {
    RawClient client{wire::UniqueFd(socket)};
    if (done == Done::kAttached) {
      client.send(wire::FetchFrame{{{FileId{8}}}}, 1);
    } else if (done == Done::kChallenged) {
      client.send(wire::ProofFrame{nonce});
    } else {
      client.send(wire::HelloFrame{});
    }
    said.give('s');
    char given = 'n';
    while (const auto frame = client.receive()) {
      if (const auto* challenge = std::get_if<wire::ChallengeFrame>(&frame->payload)) {
        client.send(wire::ProofFrame{challenge->nonce});
      } else if (!std::holds_alternative<wire::ErrorFrame>(frame->payload)) {
        given = 'y';
      }
    }
    said.give(given);
    ::pause();
  }
  void run_until_readable(int fd) {
    bool is_readable = false;
    ASSERT_TRUE(loop->add(fd, EPOLLIN,
                          [&](std::uint32_t) {
                            is_readable = true;
                            loop->stop();
                          })
                    .ok());
    run_until([&] { return is_readable; });
    loop->remove(fd);
  }
  // As far as what has come already goes.
  void run_a_moment() {
    loop->after(std::chrono::milliseconds(1), [this] { loop->stop(); });
    loop->run();
  }

  void use_again(const Reuse& reuse) {
    log.clear();
    host.events.clear();
    const wire::UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const Pipe said;
    const pid_t former = fork_by(::fork, [&] { connect_and(reuse.done, socket.get(), said); });
    if (reuse.done != Done::kConnected) {
      ASSERT_NO_FATAL_FAILURE(run_until_readable(said.ends[0]));
    }
    const auto nonce = said.take<wire::Nonce>();
    if (reuse.done == Done::kAccepted) run_a_moment();
    // From here on the server sees nothing until all has happened.
    end(former);
    const bool same = reuse.heir == Heir::kSameNumber;
    const auto go_on = [&] { go_on_after(reuse.done, socket.get(), nonce, said); };
    const pid_t successor = fork_by([&] { return fork_with_number(former); },
                                    [&] { same ? go_on() : static_cast<void>(::pause()); });
    ASSERT_EQ(successor, former) << "this test needs root";
    const pid_t other = same ? 0 : fork_by(::fork, go_on);
    EXPECT_EQ(said.take<char>(), 's');
    ASSERT_NO_FATAL_FAILURE(run_until_readable(said.ends[0]));
    EXPECT_EQ(said.take<char>(), 'n') << "it was given something";
    end(successor);
    if (other != 0) end(other);
    if (reuse.done == Done::kAttached) {
      ++sessions_;
      run_until([&] { return host.has(fmt::format("exited {}", sessions_)); });
      EXPECT_THAT(host.events, ::testing::ElementsAre(fmt::format("open {}", sessions_),
                                                      fmt::format("hang_up {}", sessions_),
                                                      fmt::format("exited {}", sessions_)));
    } else {
      EXPECT_THAT(host.events, ::testing::ElementsAre());
    }
  }

  std::size_t sessions_ = 0;  // of former processes
};
INSTANTIATE_TEST_SUITE_P(, AttachReuses, kPidfdWays, pidfd_way_name);

TEST_P(AttachReuses, OfANumberAreNeverTakenForTheFormerProcess) {
  std::vector<Reuse> all;
  for (const Done done : kAllDone) {
    for (const Heir heir : {Heir::kSameNumber, Heir::kOtherNumber}) {
      // By its number alone a process is taken for what it is when the daemon accepts: the one that
      // has the number then, whose session it is.
      const bool is_its_own = GetParam() == server::PidfdWay::kByNumber &&
                              done == Done::kConnected && heir == Heir::kSameNumber;
      if (!is_its_own) all.push_back({done, heir});
    }
  }
  const std::uint64_t reuses = goal(16, 10'000);
  serve();
  for (std::uint64_t i = 0; i < reuses && !HasFailure(); ++i) {
    const Reuse& reuse = all[i % all.size()];
    SCOPED_TRACE(fmt::format("done {}, heir {}", static_cast<int>(reuse.done),
                             static_cast<int>(reuse.heir)));
    ASSERT_NO_FATAL_FAILURE(use_again(reuse));
  }
  reached(
      "{} process numbers used again ({}), {} kinds of steps and heirs in turn: none was taken for "
      "the former process",
      reuses, GetParam() == server::PidfdWay::kBest ? "pidfd of the kernel's" : "pidfd by number",
      all.size());
}

}  // namespace
}  // namespace memlease::testing
