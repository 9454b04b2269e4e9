#include <string>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "wire/error.h"
#include "wire/grpc/convert.h"
#include "wire/utf8.h"

namespace memlease::wire {
namespace {

TEST(ConvertStatus, SuccessStaysSuccess) {
  EXPECT_TRUE(to_grpc(absl::OkStatus()).ok());
  EXPECT_TRUE(from_grpc(grpc::Status::OK).ok());
}

TEST(ConvertStatus, EveryErrorArrivesAsItWasMade) {
  for (int value = 1; is_error_code(value); ++value) {
    const auto code = static_cast<ErrorCode>(value);
    const absl::Status sent = make_error(code, "what and why", "what to do");
    const grpc::Status carried = to_grpc(sent);
    EXPECT_EQ(static_cast<int>(carried.error_code()), static_cast<int>(sent.code()));
    EXPECT_EQ(carried.error_message(), "what and why");
    EXPECT_EQ(from_grpc(carried), sent) << name_of(code);
  }
}

TEST(ConvertStatus, AnErrorWithoutAHintArrivesWithoutOne) {
  const absl::Status sent = make_error(ErrorCode::kNotFound, "no such array");
  EXPECT_EQ(from_grpc(to_grpc(sent)), sent);
}

TEST(ConvertStatus, AStatusThatNobodyMadeIsInternal) {
  const absl::Status received = from_grpc(to_grpc(absl::NotFoundError("elsewhere")));
  EXPECT_EQ(code_of(received), ErrorCode::kInternal);
  EXPECT_EQ(message_of(received), "elsewhere");
}

TEST(ConvertStatus, LongTextsAreCutAndStillFitIntoTrailers) {
  const std::string umlauts = [] {
    std::string text;
    for (int i = 0; i < 50'000; ++i) text += "\xC3\xA4";
    return text;
  }();
  const grpc::Status carried = to_grpc(make_error(ErrorCode::kBusy, "m" + umlauts, "h" + umlauts));
  const std::size_t on_the_wire =
      carried.error_message().size() * 3 + carried.error_details().size() * 4 / 3;
  EXPECT_LT(on_the_wire, 7 * 1024U);
  const absl::Status received = from_grpc(carried);
  EXPECT_EQ(code_of(received), ErrorCode::kBusy);
  EXPECT_EQ(message_of(received).size() % 2, 0U) << "cut inside of a character";
  EXPECT_TRUE(message_of(received).ends_with("\xA4..."));
  EXPECT_TRUE(hint_of(received).ends_with("\xA4..."));
}

TEST(ConvertStatus, BytesThatAreNotUtf8DoNotLoseTheError) {
  const absl::Status received =
      from_grpc(to_grpc(make_error(ErrorCode::kDenied, "held by \xFFvil", "ask \xC3")));
  EXPECT_EQ(code_of(received), ErrorCode::kDenied);
  EXPECT_EQ(message_of(received), "held by ?vil");
  EXPECT_EQ(hint_of(received), "ask ?");
}

TEST(ConvertStatus, ErrorsOfGrpcItselfGetTheNearestCode) {
  const struct {
    grpc::StatusCode from;
    ErrorCode to;
  } kCases[] = {
      {grpc::StatusCode::UNAVAILABLE, ErrorCode::kDaemonLost},
      {grpc::StatusCode::DEADLINE_EXCEEDED, ErrorCode::kTimeout},
      {grpc::StatusCode::CANCELLED, ErrorCode::kInterrupted},
      {grpc::StatusCode::PERMISSION_DENIED, ErrorCode::kDenied},
      {grpc::StatusCode::UNAUTHENTICATED, ErrorCode::kDenied},
      {grpc::StatusCode::UNIMPLEMENTED, ErrorCode::kVersionSkew},
      {grpc::StatusCode::RESOURCE_EXHAUSTED, ErrorCode::kQuotaExceeded},
      {grpc::StatusCode::UNKNOWN, ErrorCode::kInternal},
  };
  for (const auto& [from, to] : kCases) {
    const absl::Status received = from_grpc({from, "Socket closed"});
    EXPECT_EQ(code_of(received), to) << from;
    EXPECT_NE(message_of(received).find("Socket closed"), std::string::npos);
  }
}

TEST(ConvertStatus, WhoFoundNoThreadMayTryAgain) {
  const grpc::Status turned_away(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                 "Server Threadpool Exhausted");
  EXPECT_TRUE(is_turned_away(turned_away));
  EXPECT_EQ(code_of(from_grpc(turned_away)), ErrorCode::kBusy);
  EXPECT_FALSE(is_turned_away({grpc::StatusCode::RESOURCE_EXHAUSTED, "too long"}));
  EXPECT_FALSE(is_turned_away({grpc::StatusCode::UNAVAILABLE, "Server Threadpool Exhausted"}));
  EXPECT_FALSE(is_turned_away(to_grpc(make_error(ErrorCode::kBusy, "x"))));
}

TEST(ConvertStatus, DetailsThatAreNoErrorOfOursAreIgnored) {
  v1::Error unknown;
  unknown.set_code(999);
  for (const std::string& details : {std::string("\xFF\xFF"), unknown.SerializeAsString()}) {
    const absl::Status received = from_grpc({grpc::StatusCode::UNAVAILABLE, "closed", details});
    EXPECT_EQ(code_of(received), ErrorCode::kDaemonLost);
  }
}

RC_GTEST_PROP(ConvertStatus, TextsOfAnyBytesArriveAsUtf8, (const std::string& bytes)) {
  const absl::Status received = from_grpc(to_grpc(make_error(ErrorCode::kInternal, bytes, bytes)));
  RC_ASSERT(message_of(received) == to_utf8(bytes));
  RC_ASSERT(to_utf8(to_utf8(bytes)) == to_utf8(bytes));
}

TEST(ToUtf8, KeepsWhatIsValid) {
  for (const std::string text : {"", "plain", "\xC3\xA4", "\xE2\x82\xAC", "\xED\x9F\xBF",
                                 "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(to_utf8(text), text);
  }
}

TEST(ToUtf8, ReplacesEachByteThatIsNot) {
  const struct {
    std::string from;
    std::string to;
  } kCases[] = {
      {"\x80", "?"},                               // a continuation alone
      {"a\xC3", "a?"},                             // cut off
      {"\xC3(", "?("},                             // not continued
      {"\xC0\xAF", "??"},                          // longer than needed
      {"\xE0\x80\xAF", "???"},                     //
      {"\xF0\x80\x80\xAF", "????"},                //
      {"\xED\xA0\x80", "???"},                     // a surrogate
      {"\xF4\x90\x80\x80", "????"},                // beyond U+10FFFF
      {"\xF5\x80\x80\x80", "????"},                //
      {"\xE2\x82\xE2\x82\xAC", "??\xE2\x82\xAC"},  // goes on behind it
  };
  for (const auto& [from, to] : kCases) EXPECT_EQ(to_utf8(from), to);
}

ArraySpec example() {
  const ArrayKind kind{.dtype = {DTypeCode::kComplex, 128, 1},
                       .shape = {3, 0, 5},
                       .strides_bytes = {16, 48, 48},
                       .device = "host",
                       .slots = 7,
                       .max_slots = 9,
                       .lifetime = Lifetime::kPersistent,
                       .mode = 0640,
                       .writer = Writer::kExclusive};
  return {kind, "sim/rank0/u"};
}

TEST(ConvertSpec, ArrivesAsItWas) {
  ArraySpec session = example();
  session.lifetime = Lifetime::kSession;
  session.writer = Writer::kAny;
  session.strides_bytes = {};
  session.shape = {};
  for (const ArraySpec& spec : {example(), session, ArraySpec{}}) {
    const auto back = from_proto(to_proto(spec));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, spec);
  }
}

// A cast would turn 257 lanes of 8 bits into something harmless that was never asked for.
TEST(ConvertSpec, NumbersThatDoNotFitAreRefused) {
  const auto refused = [](auto&& change) {
    v1::ArraySpec spec = to_proto(example());
    change(spec);
    const auto back = from_proto(spec);
    return !back.ok() && code_of(back.status()) == ErrorCode::kInvalidArgument &&
           !hint_of(back.status()).empty();
  };
  EXPECT_TRUE(refused([](auto& spec) { spec.mutable_dtype()->set_code(256); }));
  EXPECT_TRUE(refused([](auto& spec) { spec.mutable_dtype()->set_bits(256 + 32); }));
  EXPECT_TRUE(refused([](auto& spec) { spec.mutable_dtype()->set_lanes(65536 + 1); }));
  EXPECT_TRUE(refused([](auto& spec) { spec.set_lifetime(v1::LIFETIME_UNSPECIFIED); }));
  EXPECT_TRUE(refused([](auto& spec) { spec.set_lifetime(static_cast<v1::Lifetime>(9)); }));
  EXPECT_TRUE(refused([](auto& spec) { spec.set_writer(v1::WRITER_UNSPECIFIED); }));
  EXPECT_TRUE(refused([](auto& spec) { spec.set_writer(static_cast<v1::Writer>(9)); }));
  EXPECT_FALSE(refused([](auto&) {}));
}

TEST(ConvertRefs, ArriveAsTheyWere) {
  const FileRange range{FileId{kMaxFileId}, std::uint64_t{1} << 45};
  const RowRef row{FileId{12}, 1023};
  EXPECT_EQ(from_proto(to_proto(range)), range);
  EXPECT_EQ(from_proto(to_proto(row)), row);
}

}  // namespace
}  // namespace memlease::wire
