// Clients that send what they should not: the daemon answers with a clear error, ends their
// connection, and goes on serving everybody else.
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "server/channel/command_lines.h"
#include "tests/channel/attach_fixture.h"
#include "tests/support/lingering_socket.h"
#include "wire/error.h"

namespace memlease::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using wire::ErrorCode;
using wire::FileId;

class AttachFrames : public EachPidfdWay {};
INSTANTIATE_TEST_SUITE_P(, AttachFrames, kPidfdWays, pidfd_way_name);

std::vector<std::byte> bytes_of(const wire::Payload& payload) {
  return wire::encode_frame({0, payload});
}

struct BadMessage {
  std::string name;
  std::vector<std::byte> bytes;
  ErrorCode code = ErrorCode::kInvalidArgument;
};

// Bad at any time.
std::vector<BadMessage> bad_messages() {
  auto truncated = bytes_of(wire::ProofFrame{});
  truncated.pop_back();
  auto trailing = bytes_of(wire::ByeFrame{});
  trailing.push_back({});
  auto unknown = bytes_of(wire::ByeFrame{});
  unknown[6] = std::byte{99};
  auto foreign = bytes_of(wire::FetchFrame{{{FileId{1}}}});
  foreign[4] = std::byte{7};
  return {
      {"empty", {}},
      {"less than a header", std::vector<std::byte>(15)},
      {"no magic", std::vector<std::byte>(16)},
      {"truncated", truncated},
      {"trailing", trailing},
      {"unknown type", unknown},
      {"one byte more than a frame", std::vector<std::byte>(wire::kMaxFrameBytes + 1)},
      {"much longer than a frame", std::vector<std::byte>(20000)},
      {"another version", foreign, ErrorCode::kVersionSkew},
      {"a frame of the daemon", bytes_of(wire::ChallengeFrame{})},
      {"an error", bytes_of(wire::ErrorFrame{})},
      {"file 0", bytes_of(wire::FetchFrame{{{FileId{0}}}})},
  };
}

TEST_P(AttachFrames, EndsAConnectionThatSendsAnythingElseThanItsNextFrame) {
  serve();
  for (const bool attach_first : {false, true}) {
    for (const auto& bad : bad_messages()) {
      SCOPED_TRACE(fmt::format("{}, {}", bad.name, attach_first ? "attached" : "at first"));
      host.events.clear();
      log.clear();
      Child child([&]() -> std::string {
        RawClient client(directory);
        if (attach_first && !client.attach()) return "cannot attach";
        if (!client.send_bytes(bad.bytes)) return "cannot send";
        return client.expect_end_by(bad.code);
      });
      EXPECT_EQ(finish(child), "");
      EXPECT_THAT(log, ElementsAre(HasSubstr(" disconnected: ")));
      if (attach_first) {
        run_until([&] { return host.events.size() == 3; });
        EXPECT_THAT(host.events[1], HasSubstr("hang_up"));
      } else {
        EXPECT_THAT(host.events, ElementsAre());
      }
    }
  }
  expect_service();
}

TEST_P(AttachFrames, RefusesFramesOutOfTurn) {
  serve();
  const wire::Payload out_of_turn[] = {wire::ProofFrame{}, wire::FetchFrame{}, wire::ByeFrame{},
                                       wire::ExitFrame{}};
  for (const auto& payload : out_of_turn) {
    Child child([&] {
      RawClient client(directory);
      client.send(payload);
      return client.expect_end_by(ErrorCode::kInvalidArgument);
    });
    EXPECT_EQ(finish(child), "");
  }
  Child again([&]() -> std::string {
    RawClient client(directory);
    if (!client.attach()) return "cannot attach";
    client.send(wire::HelloFrame{});
    return client.expect_end_by(ErrorCode::kInvalidArgument);
  });
  EXPECT_EQ(finish(again), "");
  EXPECT_EQ(log.size(), 5U);
}

// Its other threads go on until it has exited.
TEST_P(AttachFrames, ServesAProcessThatIsAboutToExit) {
  host.files = {{7, "board"}};
  serve();
  Child child([&]() -> std::string {
    RawClient client(directory);
    if (!client.attach()) return "cannot attach";
    client.send(wire::ExitFrame{});
    client.send(wire::FetchFrame{{{FileId{7}}}});
    const auto frame = client.receive();
    if (!frame || !std::holds_alternative<wire::FileFrame>(frame->payload)) return "no file";
    return "";
  });
  EXPECT_EQ(finish(child), "");
  run_until([&] { return host.has("exited 1"); });
  EXPECT_THAT(host.events, ElementsAre("open 1", "fetch 1", "exit 1", "exited 1"));
}

// A session that ends behind so many frames, which wait, as an answer is unread.
class AttachLastWords : public AttachFrames {
 protected:
  void exit_behind(int frames) {
    host.files = {{7, "board"}};
    serve();
    Child child([&]() -> std::string {
      RawClient client(directory);
      if (!client.attach()) return "cannot attach";
      for (int i = 0; i < frames; ++i) client.send(wire::FetchFrame{{{FileId{7}}}});
      client.send(wire::ExitFrame{});
      return "";
    });
    EXPECT_EQ(finish(child), "");
    run_until([&] { return host.has("exited 1"); });
  }
};

INSTANTIATE_TEST_SUITE_P(, AttachLastWords, kPidfdWays, pidfd_way_name);

TEST_P(AttachLastWords, AreFoundBehindOthers) {
  exit_behind(20);
  EXPECT_TRUE(host.has("exit 1"));
}

// Of hundreds of sessions that end in one instant, each with as many frames, it would take seconds.
TEST_P(AttachLastWords, AreNotLookedForBehindVeryMany) {
  exit_behind(200);
  EXPECT_TRUE(host.has("hang_up 1"));
}

TEST_P(AttachFrames, NamesBothVersionsIfTheyDoNotOverlap) {
  serve();
  Child child([&]() -> std::string {
    RawClient client(directory);
    client.send(wire::HelloFrame{2, 3, "9.9"});
    const auto frame = client.receive();
    if (!frame) return "no answer";
    const auto& error = std::get<wire::ErrorFrame>(frame->payload);
    return fmt::format("{}: {}", wire::name_of(error.code), error.message);
  });
  EXPECT_EQ(finish(child),
            "VersionSkew: the client's memlease library, 9.9, speaks version 2 to 3 of the "
            "protocol, the older daemon version 1");
  // An operator sees which program that is.
  EXPECT_THAT(log, ElementsAre(HasSubstr(server::CommandLines::read_command_line(::getpid()))));
}

TEST_P(AttachFrames, TakesNoDescriptors) {
  serve();
  for (const bool attach_first : {false, true}) {
    Gate sends, has_sent;
    std::vector<int> fds = sends.fds();
    for (const int fd : has_sent.fds()) fds.push_back(fd);
    Child child(
        [&]() -> std::string {
          RawClient client(directory);
          if (attach_first && !client.attach()) return "cannot attach";
          sends.wait();
          LingeringSocket lingering;
          const int fd = lingering.socket.get();
          const bool sent = client.send_bytes(bytes_of(wire::FetchFrame{{{FileId{7}}}}), fd);
          if (sent) lingering.socket.reset();
          has_sent.open();
          if (sent != lets_descriptors_through) return "the kernel has let it through";
          if (!sent) return "";
          std::string error = client.expect_end_by(ErrorCode::kInvalidArgument);
          return lingering.take_bytes() == lingering.sent_bytes ? error : error + "bytes are lost";
        },
        fds);
    if (attach_first) run_until([&] { return host.has("open 1"); });
    // The daemon stands still until it is the last who has that socket, and would have to wait.
    sends.open();
    has_sent.wait();
    EXPECT_EQ(finish(child), "");
  }
  EXPECT_EQ(log.size(), lets_descriptors_through ? 2U : 0U);
  expect_service();  // and the fixture finds no descriptor left over
}

}  // namespace
}  // namespace memlease::testing
