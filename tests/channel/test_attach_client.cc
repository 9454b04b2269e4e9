// The client against daemons that are not there, not to be trusted, or out of their mind.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "client/channel/attach_client.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "tests/channel/attach_fixture.h"
#include "tests/support/readable.h"
#include "wire/error.h"
#include "wire/frame_socket.h"

namespace memlease::testing {
namespace {

using internal::AttachClient;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using wire::ErrorCode;
using wire::FileId;

// What a scripted daemon sends for the client's first, second, ... frame; then it waits for the
// end.
constexpr int kMost = wire::kMaxFetchedFiles;
struct Answer {
  wire::Payload payload;
  int fds = 0;
};
using Script = std::vector<std::vector<Answer>>;

class AttachClientTest : public AttachFixture {
 protected:
  // Connects to a daemon that follows the script, and, if that works, fetches file 8, or opens an
  // array.
  std::string outcome(const Script& script) {
    listener.reset();
    ::unlink((directory + "/attach.sock").c_str());
    listen();
    Child daemon(
        [&]() -> std::string {
          play(script);
          return "";
        },
        {listener.get()});
    std::string said;
    {
      const auto client = AttachClient::connect(directory);
      if (!client.ok()) {
        said = say(client.status());
      } else if (opens) {
        const auto opened =
            (*client)->open_array(wire::OpeningCall::kOpen, "a request", internal::kNoInterrupts);
        said = opened.ok() ? "opened" : say(opened.status());
        if (!opened.ok() && (*client)->alive()) said += "; alive";
      } else {
        const auto file = (*client)->fetch({FileId{8}});
        said = file.ok() ? "file" : say(file.status());
        if (!file.ok() && (*client)->alive()) said += "; alive";
      }
    }
    EXPECT_EQ(daemon.reap(), "");
    return said;
  }

  bool opens = false;

 private:
  void play(const Script& script) const {
    const wire::UniqueFd client(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const auto await = [&] {
      readable(client.get(), -1);
      return wire::receive_frame(client.get(), wire::Ancillary::kFiles).outcome ==
             wire::Received::Outcome::kFrame;
    };
    for (const auto& answers : script) {
      if (!await()) return;
      for (const Answer& answer : answers) send(client.get(), answer);
    }
    if (!script.empty() && !script.back().empty()) await();
  }

  static void send(int socket, const Answer& answer) {
    const bool answers = std::holds_alternative<wire::FileFrame>(answer.payload) ||
                         std::holds_alternative<wire::OpenedFrame>(answer.payload);
    const std::uint32_t request_id = answers ? 1 : 0;
    auto bytes = wire::encode_frame({request_id, answer.payload});
    if (answer.fds <= kMost) {
      const std::vector<int> fds(static_cast<std::size_t>(answer.fds), STDERR_FILENO);
      wire::send_frame(socket, bytes, fds);
      return;
    }
    alignas(cmsghdr) std::array<char, CMSG_SPACE((kMost + 1) * sizeof(int))> control{};
    iovec part{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN((kMost + 1) * sizeof(int));
    int too_many[kMost + 1];
    std::ranges::fill(too_many, STDERR_FILENO);
    std::memcpy(CMSG_DATA(header), too_many, sizeof(too_many));
    ::sendmsg(socket, &message, 0);
  }
};

const Answer kChallenge{wire::ChallengeFrame{}};
const Answer kWelcome{wire::WelcomeFrame{}};
const Answer kFile{wire::FileFrame{{{FileId{8}, wire::FileKind::kSegment, 1, true}}}, 1};

TEST_F(AttachClientTest, SaysWhereNobodyListens) {
  EXPECT_THAT(say(AttachClient::connect(directory).status()),
              AllOf(StartsWith("DaemonUnavailable"), HasSubstr(directory + "/attach.sock")));
  listen();
  listener.reset();
  EXPECT_THAT(say(AttachClient::connect(directory).status()),
              AllOf(StartsWith("DaemonUnavailable"), HasSubstr("refused")));
}

TEST_F(AttachClientTest, SaysThatAPathIsTooLong) {
  const auto status = AttachClient::connect("/tmp/" + std::string(100, 'x')).status();
  EXPECT_THAT(say(status), AllOf(StartsWith("InvalidArgument"), HasSubstr("107")));
}

TEST_F(AttachClientTest, RefusesTheDaemonOfAThirdUser) {
  ASSERT_EQ(::chmod(directory.c_str(), 0777), 0);
  Gate ready, done;
  auto gates = ready.fds();
  for (const int fd : done.fds()) gates.push_back(fd);
  Child daemon(
      [&]() -> std::string {
        if (::setuid(1000) != 0) return "this test needs root";
        listen();
        ready.open();
        done.wait();
        return "";
      },
      gates);
  ready.wait();
  Child client([&]() -> std::string {
    return ::setuid(1001) == 0 ? say(AttachClient::connect(directory).status())
                               : "this test needs root";
  });
  EXPECT_THAT(client.reap(), AllOf(StartsWith("Denied"), HasSubstr("uid 1000")));
  done.open();
  EXPECT_EQ(daemon.reap(), "");
}

TEST_F(AttachClientTest, FetchesAFileFromADaemonThatFollowsTheRules) {
  EXPECT_EQ(outcome({{kChallenge}, {kWelcome}, {kFile}}), "file");
}

TEST_F(AttachClientTest, SaysHowTheHandshakeFailed) {
  const Answer refusal{wire::ErrorFrame{ErrorCode::kQuotaExceeded, "full", "Wait."}};
  const Answer leaving{wire::ErrorFrame{ErrorCode::kDaemonLost, "shutting down", ""}};
  EXPECT_THAT(outcome({{}}), AllOf(StartsWith("DaemonUnavailable"), HasSubstr(directory)));
  EXPECT_THAT(outcome({{kChallenge}, {}}), HasSubstr("closed the connection"));
  EXPECT_THAT(outcome({{refusal}}), AllOf(StartsWith("QuotaExceeded"), HasSubstr("full")));
  EXPECT_THAT(outcome({{kChallenge}, {refusal}}), StartsWith("QuotaExceeded"));
  EXPECT_THAT(outcome({{leaving}}), StartsWith("DaemonUnavailable"));
  EXPECT_THAT(outcome({{kWelcome}}), HasSubstr("sent WELCOME where CHALLENGE was due"));
  EXPECT_THAT(outcome({{kChallenge}, {kChallenge}}),
              HasSubstr("sent CHALLENGE where WELCOME was due"));
  EXPECT_THAT(outcome({{{wire::FetchFrame{{{FileId{0}}}}}}}), HasSubstr("malformed attach frame"));
}

TEST_F(AttachClientTest, EndsTheConnectionOverAnAnswerThatIsNotTheFile) {
  const auto fetch = [this](std::vector<Answer> answers) {
    return outcome({{kChallenge}, {kWelcome}, std::move(answers)});
  };
  const Answer other{wire::FileFrame{{{FileId{7}, wire::FileKind::kSegment, 1, true}}}, 1};
  const Answer unasked{wire::FileFrame{{{FileId{8}, wire::FileKind::kSegment, 1, true},
                                        {FileId{9}, wire::FileKind::kSegment, 1, true}}},
                       2};
  auto bare = kFile, twice = kFile, swamped = kFile;
  bare.fds = 0;
  twice.fds = 2;
  swamped.fds = kMost + 1;
  const auto is_lost = [](const std::string& why) {
    return AllOf(StartsWith("DaemonLost: the session with the daemon at "), HasSubstr(why),
                 ::testing::Not(HasSubstr("; alive")));
  };
  EXPECT_THAT(fetch({}), is_lost("closed the connection"));
  EXPECT_THAT(fetch({other}), is_lost("answered FETCH of file 8 by another FILE"));
  EXPECT_THAT(fetch({bare}), is_lost("answered FETCH of file 8 by another FILE"));
  EXPECT_THAT(fetch({twice}), is_lost("answered FETCH of file 8 by another FILE"));
  EXPECT_THAT(fetch({unasked}), is_lost("answered FETCH of file 8 by another FILE"));
  EXPECT_THAT(fetch({swamped}), is_lost("carried more than 8 file descriptors"));
  EXPECT_THAT(fetch({kWelcome}), is_lost("by another WELCOME"));
  EXPECT_THAT(fetch({{wire::FetchFrame{{{FileId{0}}}}}}), is_lost("malformed"));
}

TEST_F(AttachClientTest, EndsTheConnectionOverAnAnswerThatIsNoOpenedArray) {
  opens = true;
  const auto open = [this](Answer answer) {
    return outcome({{kChallenge}, {kWelcome}, {std::move(answer)}});
  };
  const wire::FileFrame::File file{FileId{8}, wire::FileKind::kBoard, 1, false};
  EXPECT_EQ(open({wire::OpenedFrame{"an answer", {file}}, 1}), "opened");
  EXPECT_EQ(open({wire::OpenedFrame{"an answer", {}}, 0}), "opened");
  const auto is_lost =
      AllOf(StartsWith("DaemonLost: the session with the daemon at "),
            HasSubstr("it answered OPEN by another "), ::testing::Not(HasSubstr("; alive")));
  EXPECT_THAT(open({wire::OpenedFrame{"an answer", {file}}, 0}), is_lost);
  EXPECT_THAT(open({wire::OpenedFrame{"an answer", {file}}, 2}), is_lost);
  EXPECT_THAT(open(kFile), is_lost);
}

// The descriptor arrives when this process has no free number: a later one may find one.
TEST_F(AttachClientTest, GoesOnAfterItsOwnLimitOfOpenFilesWasReached) {
  host.files = {{8, "segment"}};
  serve();
  Child child([&]() -> std::string {
    const auto client = AttachClient::connect(directory);
    if (!client.ok()) return say(client.status());
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    const rlimit none{0, before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
    if (!(*client)->alive()) return "poll(2), which refuses then, was taken for the daemon's end";
    const std::string refused = say((*client)->fetch({FileId{8}}).status());
    ::setrlimit(RLIMIT_NOFILE, &before);
    return refused + ((*client)->fetch({FileId{8}}).ok() ? " then given" : " then refused");
  });
  EXPECT_THAT(finish(child), AllOf(StartsWith("OutOfMemory"), HasSubstr("no file descriptor free"),
                                   HasSubstr(" then given")));
}

// The others are left out, as those that the daemon does not have.
TEST_F(AttachClientTest, TakesAsManyFilesAsItHasDescriptorsFreeFor) {
  host.files = {{7, "board"}, {8, "segment"}, {9, "page"}};
  serve();
  Child child([&]() -> std::string {
    const auto client = AttachClient::connect(directory);
    if (!client.ok()) return say(client.status());
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    const int next = ::dup(STDERR_FILENO);
    ::close(next);
    const rlimit two{static_cast<rlim_t>(next) + 2, before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &two);
    const internal::WantedFile files[] = {{FileId{8}}, {FileId{7}}, {FileId{9}}};
    const auto fetched = (*client)->fetch_all(files, internal::kNoInterrupts);
    ::setrlimit(RLIMIT_NOFILE, &before);
    if (!fetched.ok()) return say(fetched.status());
    std::string sizes;
    for (const auto& file : *fetched) {
      sizes += fmt::format("{} {}, ", file.fd ? "given" : "left out", file.size_bytes);
    }
    return sizes + ((*client)->fetch({FileId{9}}).ok() ? "then given" : "then refused");
  });
  EXPECT_EQ(finish(child), "given 7, given 5, left out 0, then given");
}

TEST_F(AttachClientTest, KnowsAtOnceThatTheDaemonWasKilled) {
  listen();
  Child daemon(
      [&]() -> std::string {
        static_cast<void>(loop.release());  // it has lost its descriptors
        loop = *server::EventLoop::create();
        serve();
        while (true) loop->run();
      },
      {listener.get()});
  listener.reset();
  const auto client = AttachClient::connect(directory);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ((*client)->daemon_pid(), static_cast<std::uint32_t>(daemon.pid()));
  EXPECT_TRUE((*client)->alive());
  daemon.kill();
  EXPECT_EQ(daemon.reap(), "signal 9");
  EXPECT_FALSE((*client)->alive());
  EXPECT_THAT(say((*client)->fetch({FileId{8}}).status()), StartsWith("DaemonLost"));
}

}  // namespace
}  // namespace memlease::testing
