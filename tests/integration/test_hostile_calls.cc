// Calls of a client that has a session and a token, and asks for what it must not get. The client
// library would refuse most of them itself: here the daemon must.
#include <cstdint>
#include <sstream>
#include <string>

#include "client/channel/attach_client.h"
#include "gmock/gmock.h"
#include "memlease/v1/admin.pb.h"
#include "tests/integration/hostile.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"
#include "wire/error.h"
#include "wire/grpc/convert.h"

namespace memlease::testing {
namespace {

using wire::ErrorCode;
using Stub = v1::Control::Stub;

class HostileCalls : public ::testing::TestWithParam<Hostile> {
 protected:
  Answer run(const std::string& command) {
    const Answer answer = owner_.ask(command);
    EXPECT_TRUE(answer.ok()) << command << ": " << answer.describe();
    return answer;
  }
  std::unique_ptr<internal::AttachClient> attach() {
    auto session = internal::AttachClient::connect(daemon_.directory());
    if (!session.ok()) std::abort();
    return std::move(*session);
  }

  PrivateDaemon daemon_{{"--log-level=warning"}};
  Peer owner_{daemon_.directory()};
};
INSTANTIATE_TEST_SUITE_P(, HostileCalls,
                         ::testing::ValuesIn(hostile_calls().begin(), hostile_calls().end()),
                         [](const auto& test) { return test.param.name; });

TEST_P(HostileCalls, AreRefusedAndChangeNothing) {
  run("connect");
  run("create a 3 600 512 session");
  run("write a 1000");  // ownership is in use, and is not to be had by any trick
  RawControl control(daemon_.directory());
  std::uint64_t id = 0;
  {
    const auto guest = attach();
    v1::OpenRequest open;
    open.set_name("a");
    v1::OpenReply opened;
    ASSERT_TRUE(control.call(&Stub::Open, credential_of(*guest), open, opened).ok());
    id = opened.array_id();
  }
  {
    const auto session = attach();
    const Attacker attacker{control, credential_of(*session), id};
    for (int i = 0; i < 3; ++i) {
      const absl::Status status = GetParam().call(attacker);
      EXPECT_EQ(wire::code_of(status), GetParam().code) << status;
      EXPECT_NE(wire::message_of(status), "");
      EXPECT_NE(wire::hint_of(status), "");
    }
  }
  run("fill a");
  run("publish a");
  EXPECT_EQ(run("read a 0 1000").number(), 1);
  const auto status = daemon_.admin().status();
  ASSERT_TRUE(status.ok());
  EXPECT_EQ(status->arrays(), 1U);
  run("release a");
  run("withdraw a");
  EXPECT_EQ(daemon_.unsettled(1), "");
}

// Admin's calls need no session, and take the same patterns.
TEST(HostileList, OfArraysIsRefusedToo) {
  PrivateDaemon daemon({"--log-level=warning"});
  const auto listed = daemon.admin().list_arrays("*[" + std::string(60'000, 'b') + "]");
  EXPECT_EQ(wire::code_of(listed.status()), ErrorCode::kInvalidArgument) << listed.status();
}

// gRPC refuses the call, and protobuf says why: in the log's form, and not for every call.
TEST(HostileList, OfWhatIsNoTextLeavesFewLinesInTheLogsForm) {
  PrivateDaemon daemon({"--log-level=error", "--log-format=json"});
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(daemon.admin().list_holders("\xff\xfe", "").ok());
  std::istringstream lines(daemon.log());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_TRUE(line.starts_with("{\"time\":")) << line;
  }
  EXPECT_GE(count, 1);
  EXPECT_LE(count, 5);
}

// What is refused to an array's members too.
TEST(HostileMember, GetsTheRightByNoOfferButItsOwn) {
  PrivateDaemon daemon({"--log-level=warning"});
  RawControl control(daemon.directory());
  auto session = internal::AttachClient::connect(daemon.directory());
  ASSERT_TRUE(session.ok()) << session.status();
  v1::OpenReply created;
  ASSERT_TRUE(
      control.call(&Stub::Create, credential_of(**session), good_create("a"), created).ok());
  const Attacker attacker{control, credential_of(**session), created.array_id()};
  for (const std::uint64_t offer : {std::uint64_t{0}, std::uint64_t{1}, UINT64_MAX}) {
    EXPECT_EQ(wire::code_of(attacker.confirm(attacker.id, offer)), ErrorCode::kBusy);
  }
  EXPECT_EQ(wire::code_of(attacker.leave(attacker.id, 1, UINT64_MAX)), ErrorCode::kInvalidArgument);
  // Too many, of which none is looked at; and as many as may be, of which one is the session's.
  EXPECT_EQ(wire::code_of(attacker.leave_many(wire::kMostDepartures + 1)),
            ErrorCode::kInvalidArgument);
  EXPECT_TRUE(attacker.on_array(&Stub::Subscribe, attacker.id).ok());
  EXPECT_TRUE(attacker.leave_many(wire::kMostDepartures).ok());
  EXPECT_TRUE(attacker.leave(attacker.id, 1).ok()) << "once more";
  EXPECT_EQ(wire::code_of(attacker.on_array(&Stub::Subscribe, attacker.id)), ErrorCode::kWithdrawn);
}

}  // namespace
}  // namespace memlease::testing
