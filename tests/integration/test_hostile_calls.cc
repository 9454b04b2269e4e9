// Calls of a client that has a session and a token, and asks for what it must not get. The client
// library would refuse most of them itself: here the daemon must.
#include <cstdint>
#include <functional>
#include <limits>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include "client/channel/attach_client.h"
#include "gmock/gmock.h"
#include "memlease/v1/admin.pb.h"
#include "tests/integration/raw_control.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"
#include "wire/error.h"
#include "wire/grpc/convert.h"

namespace memlease::testing {
namespace {

using wire::ErrorCode;
using Stub = v1::Control::Stub;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

v1::CreateRequest good_create(const std::string& name) {
  v1::CreateRequest request;
  wire::ArraySpec spec;
  spec.name = name;
  spec.dtype = {wire::DTypeCode::kFloat, 32, 1};
  spec.shape = {4, 8};
  *request.mutable_spec() = wire::to_proto(spec);
  return request;
}

// A session without the library; `id` is an array of somebody else that it has not opened.
struct Attacker {
  RawControl& control;
  std::string credential;
  std::uint64_t id;

  template <typename Request, typename Reply>
  absl::Status call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                    const Request& request = {}) const {
    return control.call(method, credential, request);
  }
  template <typename Reply>
  absl::Status on_array(grpc::Status (Stub::*method)(grpc::ClientContext*, const v1::ArrayRequest&,
                                                     Reply*),
                        std::uint64_t array_id) const {
    v1::ArrayRequest request;
    request.set_array_id(array_id);
    return call(method, request);
  }
  absl::Status confirm(std::uint64_t array_id, std::uint64_t offer) const {
    v1::ConfirmWriterRequest request;
    request.set_array_id(array_id);
    request.set_offer(offer);
    return call(&Stub::ConfirmWriter, request);
  }
  absl::Status leave(std::uint64_t array_id, std::uint32_t opens, std::uint64_t number = 0) const {
    v1::LeaveRequest request;
    add_departure(request, array_id, opens);
    request.mutable_departures(0)->set_number(number);
    return call(&Stub::Leave, request);
  }
  // The array itself is the last of them.
  absl::Status leave_many(std::size_t arrays) const {
    v1::LeaveRequest request;
    for (std::size_t i = 1; i < arrays; ++i) add_departure(request, UINT64_MAX - i, 1);
    add_departure(request, id, UINT32_MAX);
    return call(&Stub::Leave, request);
  }
  static void add_departure(v1::LeaveRequest& request, std::uint64_t array_id,
                            std::uint32_t opens) {
    v1::Departure& departure = *request.add_departures();
    departure.set_array_id(array_id);
    departure.set_opens(opens);
  }
};

struct Hostile {
  std::string name;
  ErrorCode code;
  std::function<absl::Status(const Attacker&)> call;
};
void PrintTo(const Hostile& hostile, std::ostream* out) { *out << hostile.name; }

Hostile bad_spec(const std::string& name, const std::function<void(v1::ArraySpec&)>& spoil,
                 ErrorCode code = ErrorCode::kInvalidArgument) {
  return {"Create" + name, code, [spoil](const Attacker& attacker) {
            v1::CreateRequest request = good_create("b");
            spoil(*request.mutable_spec());
            return attacker.call(&Stub::Create, request);
          }};
}

Hostile bad_shape(const std::string& name, const std::vector<std::int64_t>& shape,
                  const std::vector<std::int64_t>& strides = {}) {
  return bad_spec(name, [shape, strides](v1::ArraySpec& spec) {
    spec.mutable_shape()->Assign(shape.begin(), shape.end());
    spec.mutable_strides_bytes()->Assign(strides.begin(), strides.end());
  });
}

template <typename Request, typename Reply>
Hostile bad_name(const std::string& name,
                 grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                 const std::string& value, ErrorCode code) {
  return {name, code, [=](const Attacker& attacker) {
            Request request;
            request.set_name(value);
            return attacker.call(method, request);
          }};
}

Hostile bad_pattern(const std::string& name, const std::string& pattern) {
  return {name, ErrorCode::kInvalidArgument, [=](const Attacker& attacker) {
            v1::ListRequest request;
            request.set_pattern(pattern);
            return attacker.call(&Stub::List, request);
          }};
}

const Hostile kHostile[] = {
    {"CreateNothing", ErrorCode::kInvalidArgument,
     [](const Attacker& attacker) { return attacker.call(&Stub::Create); }},
    bad_spec("NameEmpty", [](v1::ArraySpec& spec) { spec.set_name(""); }),
    bad_spec("NameUpwards", [](v1::ArraySpec& spec) { spec.set_name("../b"); }),
    bad_spec("DTypeUnknown", [](v1::ArraySpec& spec) { spec.mutable_dtype()->set_bits(24); }),
    bad_spec("DTypeCut", [](v1::ArraySpec& spec) { spec.mutable_dtype()->set_lanes(65537); }),
    bad_shape("ShapeNegative", {4, -1}),
    bad_shape("ShapeOverflowing", {kHuge, kHuge}),
    bad_shape("ShapeOverflowingToZero", {std::int64_t{1} << 32, std::int64_t{1} << 32}),
    bad_shape("StridesOverlapping", {4, 8}, {28, 4}),
    bad_shape("StridesNegative", {4, 8}, {-32, 4}),
    bad_shape("StridesLeaving", {4, 8}, {kHuge - 3, 4}),
    bad_shape("StridesUnaligned", {4, 8}, {33, 4}),
    bad_shape("StridesTooMany", {4, 8}, {64, 32, 4}),
    bad_spec("SlotsNone", [](v1::ArraySpec& spec) { spec.set_slots(0); }),
    bad_spec("SlotsTooMany", [](v1::ArraySpec& spec) { spec.set_slots(UINT32_MAX); }),
    bad_spec("ModeNone", [](v1::ArraySpec& spec) { spec.set_mode(0); }),
    bad_spec("ModeSetUid", [](v1::ArraySpec& spec) { spec.set_mode(04600); }),
    bad_spec("LifetimeUnknown",
             [](v1::ArraySpec& spec) { spec.set_lifetime(static_cast<v1::Lifetime>(9)); }),
    bad_spec(
        "DeviceUnknown", [](v1::ArraySpec& spec) { spec.set_device("abacus"); },
        ErrorCode::kUnsupported),
    bad_spec(
        "TakenName", [](v1::ArraySpec& spec) { spec.set_name("a"); }, ErrorCode::kAlreadyExists),
    bad_name("OpenMalformed", &Stub::Open, "a//b", ErrorCode::kInvalidArgument),
    bad_name("OpenUnknown", &Stub::Open, "b", ErrorCode::kNotFound),
    bad_name("WithdrawMalformed", &Stub::Withdraw, "", ErrorCode::kInvalidArgument),
    bad_name("WithdrawUnknown", &Stub::Withdraw, "b", ErrorCode::kNotFound),
    bad_name("LookUpMalformed", &Stub::LookUp, "a b", ErrorCode::kInvalidArgument),
    bad_pattern("ListPatternTooLong", "*" + std::string(60'000, 'b')),
    bad_pattern("ListPatternWithBrackets", "[ab]*"),
    {"SubscribeUnopened", ErrorCode::kWithdrawn,
     [](const Attacker& attacker) { return attacker.on_array(&Stub::Subscribe, attacker.id); }},
    {"SubscribeUnknown", ErrorCode::kWithdrawn,
     [](const Attacker& attacker) { return attacker.on_array(&Stub::Subscribe, UINT64_MAX); }},
    {"AcquireWriterUnopened", ErrorCode::kWithdrawn,
     [](const Attacker& attacker) { return attacker.on_array(&Stub::AcquireWriter, attacker.id); }},
    {"AcquireWriterOfNothing", ErrorCode::kWithdrawn,
     [](const Attacker& attacker) { return attacker.on_array(&Stub::AcquireWriter, 0); }},
    {"CancelWriterUnopened", ErrorCode::kWithdrawn,
     [](const Attacker& attacker) { return attacker.on_array(&Stub::CancelWriter, attacker.id); }},
    {"ConfirmWriterUnopened", ErrorCode::kWithdrawn,
     [](const Attacker& attacker) { return attacker.confirm(attacker.id, 1); }},
    {"HoldersUnopened", ErrorCode::kNotFound,
     [](const Attacker& attacker) { return attacker.on_array(&Stub::Holders, attacker.id); }},
};

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
INSTANTIATE_TEST_SUITE_P(, HostileCalls, ::testing::ValuesIn(kHostile),
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
