// Sessions of clients that behave, from attach to exit, and what the daemon learns about them.
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "client/channel/attach_client.h"
#include "client/session/wait_news.h"
#include "gmock/gmock.h"
#include "tests/channel/attach_fixture.h"
#include "tests/support/eventually.h"
#include "wire/error.h"
#include "wire/futex.h"

namespace memlease::testing {
namespace {

using internal::AttachClient;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::ErrorCode;
using wire::FileId;
using wire::SessionId;

class Attach : public EachPidfdWay {};
INSTANTIATE_TEST_SUITE_P(, Attach, kPidfdWays, pidfd_way_name);

// Attaches and says how `work` went. Goodbye is said on the way out.
std::string attached(const std::string& directory,
                     const std::function<std::string(AttachClient&)>& work) {
  auto client = AttachClient::connect(directory);
  if (!client.ok()) return say(client.status());
  return work(**client);
}

std::string stay(AttachClient&) {
  while (true) ::pause();
}

// "" if the file is what FakeSessionHost has.
std::string check_file(AttachClient& client, std::uint32_t id, const std::string& content) {
  const auto file = client.fetch({FileId{id}});
  if (!file.ok()) return say(file.status());
  std::string read(content.size() + 1, '\0');
  const ssize_t size = ::pread(file->fd.get(), read.data(), read.size(), 0);
  read.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  if (read != content || file->size_bytes != content.size()) return "other content: " + read;
  if (file->kind != wire::FileKind::kBoard) return "other kind";
  const bool writable = ::pwrite(file->fd.get(), "!", 1, 0) == 1;
  if (writable != file->writable || writable != (id % 2 == 0)) return "other access";
  if ((::fcntl(file->fd.get(), F_GETFD) & FD_CLOEXEC) == 0) return "inherited on exec";
  return "";
}

TEST_P(Attach, GivesTheClientItsSessionAndItsFiles) {
  host.files = {{7, "board"}, {8, "segment"}};
  serve();
  const auto parent = static_cast<std::uint32_t>(::getpid());
  Child child([&] {
    return attached(directory, [&](AttachClient& client) -> std::string {
      if (client.session_id() != SessionId{1}) return "session";
      if (client.token() != FakeSessionHost::token_of(SessionId{1})) return "token";
      if (client.incarnation() != wire::Incarnation{1, 2, 3}) return "incarnation";
      if (client.daemon_version() != "1.2.3") return "version";
      if (client.daemon_pid() != parent) return "pid";
      if (!client.alive()) return "not alive";
      if (auto wrong = check_file(client, 7, "board"); !wrong.empty()) return wrong;
      const auto none = client.fetch({FileId{9}});
      if (wire::code_of(none.status()) != ErrorCode::kNotFound) return say(none.status());
      if (wire::hint_of(none.status()) != "Ask for another.") return "hint";
      if (auto wrong = check_file(client, 8, "segment"); !wrong.empty()) return wrong;
      client.goodbye();
      if (client.alive()) return "alive after goodbye";
      const auto closed = client.fetch({FileId{8}});
      return wire::code_of(closed.status()) == ErrorCode::kClosed ? "" : say(closed.status());
    });
  });
  EXPECT_EQ(finish(child), "");
  run_until([&] { return host.has("exited 1"); });
  EXPECT_THAT(host.events,
              ElementsAre("open 1", "fetch 1", "fetch 1", "fetch 1", "goodbye 1", "exited 1"));
  EXPECT_THAT(log, ElementsAre());
}

TEST_P(Attach, OpensAnArrayWithItsFiles) {
  host.files = {{1, "board"}};
  serve();
  Child child([&] {
    return attached(directory, [&](AttachClient& client) -> std::string {
      const auto opened =
          client.open_array(wire::OpeningCall::kCreate, "density", internal::kNoInterrupts);
      if (!opened.ok()) return say(opened.status());
      if (opened->answer != "density") return "other answer: " + opened->answer;
      if (opened->files.size() != 1) return "other number of files";
      const auto& [id, file] = opened->files[0];
      char bytes[10];
      if (id != FileId{1} || ::pread(file.fd.get(), bytes, sizeof(bytes), 0) != 5) return "file";
      if (file.kind != wire::FileKind::kBoard || file.size_bytes != 5 || file.writable) return "is";
      return check_file(client, 1, "board");
    });
  });
  EXPECT_EQ(finish(child), "");
  EXPECT_TRUE(host.has("create 1"));
}

// So that what it has opened can be given back.
TEST_P(Attach, KeepsTheAnswerThatAnInterruptedOpenDidNotWaitFor) {
  host.open_takes = std::chrono::milliseconds(300);
  serve();
  Child child([&] {
    return attached(directory, [&](AttachClient& client) -> std::string {
      using Answers = std::vector<std::string>;
      const auto interrupt = [] { return wire::make_error(ErrorCode::kInterrupted, "enough"); };
      const auto open = [&](const char* name, internal::InterruptCheck check) {
        return wire::code_of(client.open_array(wire::OpeningCall::kOpen, name, check).status());
      };
      const auto soon = std::chrono::milliseconds(1);
      const auto later = std::chrono::seconds(20);
      if (open("first", interrupt) != ErrorCode::kInterrupted) return "first";
      const auto none = client.take_late_answers(soon);
      if (!none.answers.empty() || !none.more_to_come) return "an answer before it came";
      const auto first = client.take_late_answers(later);
      if (first.answers != Answers{"first"} || first.more_to_come) return "not the first";
      if (!client.take_late_answers(soon).answers.empty()) return "the first once more";
      if (open("second", interrupt) != ErrorCode::kInterrupted) return "second";
      // It is out of the way of the next one.
      if (client.open_array(wire::OpeningCall::kOpen, "third", internal::kNoInterrupts)->answer !=
          "third") {
        return "third";
      }
      return client.take_late_answers(soon).answers == Answers{"second"} ? "" : "not the second";
    });
  });
  EXPECT_EQ(finish(child), "");
}

// What is beyond goes by calls. There is more of it a tenth of a second later.
TEST_P(Attach, OpensAFewArraysOfAUserAtATime) {
  options.openings_per_uid = 2;
  options.payer_of = [](uid_t) { return uid_t{4711}; };
  serve();
  Child child([&] {
    return attached(directory, [&](AttachClient& client) -> std::string {
      const auto open = [&](const std::string& request) {
        return client.open_array(wire::OpeningCall::kOpen, request, internal::kNoInterrupts)
            ->answer;
      };
      const std::string answers[] = {open("first"), open("second"), open("third")};
      while (open("fourth") != "fourth") continue;
      return answers[0] + "," + answers[1] + "," + answers[2];
    });
  });
  EXPECT_EQ(finish(child), "first,second,");
}

// By one answer; those that are not to be had are left out, unless it is the first.
TEST_P(Attach, GivesSeveralFilesAtOnce) {
  for (std::uint32_t file = 1; file <= 8; ++file) host.files[file] = std::string(file, 'x');
  host.files.erase(3);
  serve();
  Child child([&] {
    return attached(directory, [&](AttachClient& client) -> std::string {
      std::vector<internal::WantedFile> all;
      for (std::uint32_t file = 8; file >= 1; --file) all.push_back({FileId{file}});
      const auto files = client.fetch_all(all, internal::kNoInterrupts);
      if (!files.ok()) return say(files.status());
      std::string said;
      for (const auto& file : *files) {
        char bytes[10];
        const ssize_t there = file.fd ? ::pread(file.fd.get(), bytes, sizeof(bytes), 0) : -1;
        if (there >= 0 && file.size_bytes != static_cast<std::uint64_t>(there)) said += "not ";
        said += std::to_string(there) + (file.writable ? "w " : "r ");
      }
      const internal::WantedFile none_first[] = {{FileId{3}}, {FileId{8}}};
      const auto none = client.fetch_all(none_first, internal::kNoInterrupts);
      return said + std::string(wire::name_of(wire::code_of(none.status())));
    });
  });
  EXPECT_EQ(finish(child), "8w 7r 6w 5r 4w -1r 2w 1r NotFound");
  EXPECT_THAT(log, ElementsAre());
}

TEST_P(Attach, AttestsPidUserAndGroups) {
  serve();
  Child child([&]() -> std::string {
    const std::vector<gid_t> groups = {2001, 2002, 2003};
    if (::setgroups(groups.size(), groups.data()) != 0 || ::setgid(1001) != 0 ||
        ::setuid(1000) != 0) {
      return "this test needs root";
    }
    return attached(directory, [](AttachClient&) { return ""; });
  });
  EXPECT_EQ(finish(child), "");
  ASSERT_EQ(host.peers.size(), 1U);
  const auto& peer = host.peers[0];
  EXPECT_EQ(peer.uid, 1000U);
  EXPECT_EQ(peer.gid, 1001U);
  EXPECT_THAT(peer.groups, ElementsAre(2001, 2002, 2003));
  EXPECT_GT(peer.pid, 0);
  EXPECT_NE(peer.pid, ::getpid());
  EXPECT_THAT(peer.command, HasSubstr("test_channel"));
  EXPECT_EQ(peer.command, server::CommandLines::read_command_line(::getpid()));  // it was forked
  run_until([&] { return host.has("exited 1"); });
}

TEST_P(Attach, ReportsAKilledClientOnceAsHungUpThenAsExited) {
  serve();
  Child child([&] { return attached(directory, stay); });
  run_until([&] { return host.has("open 1"); });
  EXPECT_EQ(host.peers[0].pid, child.pid());
  child.kill();
  EXPECT_EQ(finish(child), "signal 9");
  run_until([&] { return host.has("exited 1"); });
  EXPECT_THAT(host.events, ElementsAre("open 1", "hang_up 1", "exited 1"));
}

TEST_P(Attach, TellsThatItsProcessExitsByItself) {
  serve();
  Child child(
      [&] { return attached(directory, [](AttachClient&) -> std::string { std::exit(0); }); });
  run_until([&] { return host.has("exited 1"); });
  finish(child);
  EXPECT_THAT(host.events, ElementsAre("open 1", "exit 1", "exited 1"));
}

TEST_P(Attach, ReportsAGoodbyeAtOnceAndTheExitOnlyAtTheExit) {
  serve();
  Gate gate;
  Child child(
      [&] {
        return attached(directory, [&](AttachClient& client) {
          client.goodbye();
          gate.wait();
          return "";
        });
      },
      gate.fds());
  run_until([&] { return host.has("goodbye 1"); });
  // Somebody else comes and goes in between.
  Child other([&] { return attached(directory, [](AttachClient&) { return ""; }); });
  EXPECT_EQ(finish(other), "");
  run_until([&] { return host.has("exited 2"); });
  EXPECT_FALSE(host.has("exited 1"));
  gate.open();
  EXPECT_EQ(finish(child), "");
  run_until([&] { return host.has("exited 1"); });
}

TEST_P(Attach, SeesAnExitEvenIfAForkedChildHoldsTheConnection) {
  serve();
  Gate gate;
  Child child(
      [&] {
        return attached(directory, [&](AttachClient&) -> std::string {
          if (::fork() == 0) {
            gate.wait();
            ::_exit(0);
          }
          while (true) ::pause();
        });
      },
      gate.fds());
  run_until([&] { return host.has("open 1"); });
  child.kill();
  run_until([&] { return host.has("exited 1"); });
  EXPECT_THAT(host.events, ElementsAre("open 1", "hang_up 1", "exited 1"));
  gate.open();
}

TEST_P(Attach, LeavesTheParentAloneWhenAForkedChildEnds) {
  host.files = {{8, "segment"}};
  serve();
  Child child([&] {
    return attached(directory, [&](AttachClient& client) -> std::string {
      Child forked([&]() -> std::string {
        if (client.alive()) return "alive in the child";
        const auto file = client.fetch({FileId{8}});
        if (wire::code_of(file.status()) != ErrorCode::kForkedClient) return say(file.status());
        client.goodbye();
        return "";
      });
      if (auto wrong = forked.reap(); !wrong.empty()) return wrong;
      if (!client.alive()) return "not alive in the parent";
      return check_file(client, 8, "segment");
    });
  });
  EXPECT_EQ(finish(child), "");
  run_until([&] { return host.has("exited 1"); });
  EXPECT_THAT(host.events, ElementsAre("open 1", "fetch 1", "goodbye 1", "exited 1"));
  EXPECT_THAT(log, ElementsAre());
}

TEST_P(Attach, EndsAreToldToWhoWaits) {
  serve();
  Child child([&] {
    return attached(directory, [&](AttachClient& client) -> std::string {
      const internal::WaitNews::Sleeper sleeper(internal::wait_news);
      const wire::FutexWait told = internal::wait_news.since(internal::wait_news.count());
      if (!client.watch_end()) return "does not watch";
      while (internal::wait_news.count() == told.expected) {
        const auto result = wire::futex_wait({&told, 1}, std::chrono::seconds(20));
        if (result == wire::FutexResult::kTimedOut) return "not told";
      }
      if (client.watch_end()) return "watches what has ended";
      return client.alive() ? "alive" : "";
    });
  });
  run_until([&] { return host.has("open 1"); });
  server.reset();
  EXPECT_EQ(finish(child), "");
}

TEST_P(Attach, EndsAreToldToNobodyWhereNobodyWaits) {
  serve();
  Child child([&] {
    return attached(directory, [&](AttachClient& client) -> std::string {
      const std::uint32_t before = internal::wait_news.count();
      while (client.alive()) std::this_thread::yield();
      return internal::wait_news.count() == before ? "" : "told";
    });
  });
  run_until([&] { return host.has("open 1"); });
  server.reset();
  EXPECT_EQ(finish(child), "");
}

TEST_P(Attach, TellsTheClientWhyItGetsNoSession) {
  host.refusal = wire::make_error(ErrorCode::kQuotaExceeded, "uid 0 has 3 sessions", "End one.");
  serve();
  Child child([&]() -> std::string {
    const auto client = AttachClient::connect(directory);
    if (wire::code_of(client.status()) != ErrorCode::kQuotaExceeded) return say(client.status());
    if (wire::hint_of(client.status()) != "End one.") return "hint";
    return wire::message_of(client.status());
  });
  EXPECT_THAT(finish(child), HasSubstr("uid 0 has 3 sessions"));
  EXPECT_THAT(host.events, ElementsAre());
}

TEST_P(Attach, TellsAnEvictedClientWhy) {
  serve();
  Gate gate;
  Child child(
      [&] {
        return attached(directory, [&](AttachClient& client) -> std::string {
          gate.wait();
          if (client.alive()) return "alive";
          const auto file = client.fetch({FileId{8}});
          if (wire::code_of(file.status()) != ErrorCode::kClosed) return say(file.status());
          const auto again = client.fetch({FileId{8}});
          if (wire::code_of(again.status()) != ErrorCode::kDaemonLost) return say(again.status());
          return wire::message_of(file.status());
        });
      },
      gate.fds());
  run_until([&] { return host.has("open 1"); });
  const auto reason = wire::make_error(ErrorCode::kClosed, "evicted by uid 0", "Ask them.");
  EXPECT_FALSE(server->disconnect(SessionId{2}, reason));
  EXPECT_TRUE(server->disconnect(SessionId{1}, reason));
  EXPECT_THAT(host.events, ElementsAre("open 1", "hang_up 1"));
  EXPECT_FALSE(server->disconnect(SessionId{1}, reason));
  gate.open();
  EXPECT_EQ(finish(child), "evicted by uid 0");
  run_until([&] { return host.has("exited 1"); });
}

TEST_P(Attach, ShutdownHangsUpOnAllAndStillReportsExits) {
  serve();
  Gate gate;
  const auto work = [&] {
    return attached(directory, [&](AttachClient& client) -> std::string {
      gate.wait();
      const auto file = client.fetch({FileId{8}});
      return say(file.status());
    });
  };
  Child first(work, gate.fds());
  run_until([&] { return host.has("open 1"); });
  Child second(work, gate.fds());
  run_until([&] { return host.has("open 2"); });
  server->shutdown();
  server->shutdown();
  EXPECT_TRUE(host.has("hang_up 1") && host.has("hang_up 2"));
  // Once another thread has closed the listening socket.
  std::string refusal;
  EXPECT_TRUE(eventually([&] {
    Child late([&] { return say(AttachClient::connect(directory).status()); });
    refusal = finish(late);
    return refusal.find("DaemonUnavailable: cannot connect to " + directory) != std::string::npos;
  })) << refusal;
  gate.open();
  gate.open();
  EXPECT_EQ(finish(first), "DaemonLost: the daemon is shutting down");
  EXPECT_EQ(finish(second), "DaemonLost: the daemon is shutting down");
  run_until([&] { return host.has("exited 1") && host.has("exited 2"); });
  EXPECT_EQ(host.events.size(), 6U);
}

// Clients of one process, on the threads of another: for ThreadSanitizer.
TEST_P(Attach, ServesManyThreadsOfOneClient) {
  host.files = {{7, "board"}, {8, "segment"}};
  serve();
  Child child([&] {
    return attached(directory, [](AttachClient& client) -> std::string {
      std::array<std::string, 4> wrong;
      {
        std::vector<std::jthread> threads;
        for (auto& mine : wrong) {
          threads.emplace_back([&client, &mine] {
            for (int i = 0; i < 50 && mine.empty(); ++i) {
              mine = i % 2 == 0       ? check_file(client, 7, "board")
                     : client.alive() ? ""
                                      : "not alive";
            }
          });
        }
      }
      return wrong[0] + wrong[1] + wrong[2] + wrong[3];
    });
  });
  EXPECT_EQ(finish(child), "");
  run_until([&] { return host.has("exited 1"); });
  EXPECT_EQ(std::ranges::count(host.events, "fetch 1"), 4 * 25);
}

}  // namespace
}  // namespace memlease::testing
