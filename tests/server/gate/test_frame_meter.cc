#include <chrono>
#include <optional>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "server/gate/frame_meter.h"
#include "tests/support/http2_frames.h"

namespace memlease::server {
namespace {

using std::chrono::milliseconds;
using testing::bytes_of;
using testing::Http2;
using testing::http2_frame;
using testing::http2_header;
using testing::repeated;
using Clock = FrameMeter::Clock;

const std::string kBegin =
    std::string(testing::kHttp2Preface) + http2_frame(Http2::kSettings, 0, 0);

std::string headers(std::uint32_t stream, std::uint8_t flags = Http2::kEndHeaders) {
  return http2_frame(Http2::kHeaders, flags, stream, "header block");
}
// Calls on the streams 1, 3, 5...
std::string calls(std::uint32_t count, std::uint32_t first = 0) {
  std::string all;
  for (std::uint32_t i = first; i < first + count; ++i) all += headers(2 * i + 1);
  return all;
}
std::string reset(std::uint32_t stream) { return http2_frame(Http2::kReset, 0, stream, "code"); }
std::string answer(std::uint32_t stream) {
  return http2_frame(Http2::kHeaders, Http2::kEndHeaders, stream, "block") +
         http2_frame(Http2::kData, 0, stream, "reply") +
         http2_frame(Http2::kHeaders, Http2::kEndHeaders | Http2::kEndStream, stream, "trailers");
}

// That of a uid whose connections leave as many calls open as they like.
FrameRates uid_rates() {
  FrameRates rates = kUidFrameRates;
  rates.resets = {1e9, 1e9};
  return rates;
}

// Time passes when a test says so.
class FrameMeterTest : public ::testing::Test {
 protected:
  std::optional<Excess> send(std::string_view bytes) {
    return meter_->from_client(bytes_of(bytes), now_);
  }
  void reply(std::string_view bytes) { meter_->from_server(bytes_of(bytes)); }
  void reconnect() { meter_.emplace(limits_, of_uid_, account_); }
  // By a connection of its own, which closes before there is an answer.
  std::optional<Excess> call_and_leave(Allowance& of_uid) {
    return FrameMeter(limits_, of_uid, account_).from_client(bytes_of(kBegin + calls(1)), now_);
  }

  Clock::time_point now_ = Clock::now();
  const FrameLimits limits_{.rates{.new_streams{10, 20},
                                   .resets{1, 4},
                                   .pings{1, 4},
                                   .settings{1, 4},
                                   .window_updates{1, 4},
                                   .other_frames{1, 4}},
                            .open_streams = 8,
                            .bytes_in_flight = std::size_t{2} << 20};
  AccountLimits book_{{}, "quota_", "host"};
  Account account_{1000, book_};
  Allowance of_uid_{uid_rates()};
  std::optional<FrameMeter> meter_{std::in_place, limits_, of_uid_, account_};
};

TEST_F(FrameMeterTest, LetsAnHonestClientGoOnForEver) {
  ASSERT_EQ(send(kBegin), std::nullopt);
  for (std::uint32_t i = 0; i < 10'000; ++i) {
    ASSERT_EQ(send(headers(2 * i + 1) +
                   http2_frame(Http2::kData, Http2::kEndStream, 2 * i + 1, std::string(1000, 'x'))),
              std::nullopt)
        << i;
    EXPECT_EQ(meter_->open_streams(), 1U);
    reply(answer(2 * i + 1));
    EXPECT_EQ(meter_->open_streams(), 0U);
    now_ += milliseconds(100);
    if (i % 20 == 0) {
      ASSERT_EQ(send(http2_frame(Http2::kPing, 0, 0, "12345678")), std::nullopt);
      ASSERT_EQ(send(http2_frame(Http2::kWindowUpdate, 0, 0, "1234")), std::nullopt);
    }
  }
  EXPECT_EQ(account_.used(Resource::kRequestBytes), 0U);
}

TEST_F(FrameMeterTest, CutsWhatIsNotHttp2) {
  EXPECT_EQ(send("GET / HTTP/1.1\r\n\r\n"), Excess::kNotHttp2);
  reconnect();
  EXPECT_EQ(send("PRI * HTTP/2.0\r\n\r\nSX"), Excess::kNotHttp2);
}

struct Flood {
  const char* name;
  std::string frame;
  Excess excess;
};
void PrintTo(const Flood& flood, std::ostream* out) { *out << flood.name; }

class FrameMeterFloods : public FrameMeterTest, public ::testing::WithParamInterface<Flood> {};

INSTANTIATE_TEST_SUITE_P(
    , FrameMeterFloods,
    ::testing::Values(
        Flood{"Resets", reset(1), Excess::kResets},
        Flood{"Pings", http2_frame(Http2::kPing, 0, 0, "12345678"), Excess::kPings},
        Flood{"PingAnswers", http2_frame(Http2::kPing, 1, 0, "12345678"), Excess::kPings},
        Flood{"Settings", http2_frame(Http2::kSettings, 0, 0, "123456"), Excess::kSettings},
        Flood{"WindowUpdates", http2_frame(Http2::kWindowUpdate, 0, 1, "1234"),
              Excess::kWindowUpdates},
        Flood{"Priorities", http2_frame(Http2::kPriority, 0, 1, "12345"), Excess::kOtherFrames},
        Flood{"Unknown", http2_frame(77, 0, 1), Excess::kOtherFrames},
        Flood{"HeadersOfAnOldStream", headers(1), Excess::kOtherFrames},
        Flood{"HeadersOfNoClientsStream", headers(2), Excess::kOtherFrames},
        Flood{"DataOfNoStream", http2_frame(Http2::kData, 0, 9, "x"), Excess::kOtherFrames}),
    [](const auto& test) { return test.param.name; });

// A burst passes, and later as many as the time gives.
TEST_P(FrameMeterFloods, AreCut) {
  ASSERT_EQ(send(kBegin), std::nullopt);
  now_ += milliseconds(4000);
  ASSERT_EQ(send(headers(1)), std::nullopt);
  ASSERT_EQ(send(repeated(GetParam().frame, 4)), std::nullopt);
  now_ += milliseconds(1000);
  ASSERT_EQ(send(GetParam().frame), std::nullopt);
  EXPECT_EQ(send(GetParam().frame), GetParam().excess);
}

// A few bytes are a field, which gRPC takes apart before it knows that there are too many.
TEST_F(FrameMeterTest, CutsWhoSendsMoreHeadersThanCallsHave) {
  const auto call_with_many = [&](std::uint32_t stream) {
    const auto excess =
        send(http2_frame(Http2::kHeaders, Http2::kEndHeaders, stream, std::string(60'000, 'x')));
    reply(answer(stream));
    return excess;
  };
  for (int connection = 0; connection < 2; ++connection) {
    reconnect();
    ASSERT_EQ(send(kBegin), std::nullopt);
    for (std::uint32_t i = 0; i < 16; ++i) ASSERT_EQ(call_with_many(2 * i + 1), std::nullopt) << i;
    EXPECT_EQ(call_with_many(33), Excess::kHeaderBytes);
  }
  reconnect();
  ASSERT_EQ(send(kBegin), std::nullopt);
  EXPECT_EQ(call_with_many(1), std::nullopt);
  EXPECT_EQ(call_with_many(3), Excess::kHeaderBytes) << "of all of the user's";
  now_ += milliseconds(100);
  reconnect();
  ASSERT_EQ(send(kBegin), std::nullopt);
  EXPECT_EQ(call_with_many(1), std::nullopt);
}

TEST_F(FrameMeterTest, CutsAHeaderBlockWithoutEnd) {
  const std::string more = http2_frame(Http2::kContinuation, 0, 1, std::string(16'000, 'x'));
  ASSERT_EQ(send(kBegin + headers(1, 0) + repeated(more, 4)), std::nullopt);
  EXPECT_EQ(send(more), Excess::kHeaderBlock);
}

TEST_F(FrameMeterTest, CutsALongHeaderBlockByItsLengthAlone) {
  ASSERT_EQ(send(kBegin), std::nullopt);
  EXPECT_EQ(send(http2_header(Http2::kHeaders, Http2::kEndHeaders, 1, 1 << 16)),
            Excess::kHeaderBlock);
}

TEST_F(FrameMeterTest, BeginsEachHeaderBlockAtNothing) {
  ASSERT_EQ(send(kBegin), std::nullopt);
  for (std::uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(
        send(http2_frame(Http2::kHeaders, Http2::kEndHeaders, 2 * i + 1, std::string(16'000, 'x'))),
        std::nullopt);
  }
}

TEST_F(FrameMeterTest, CutsLongFrames) {
  ASSERT_EQ(send(kBegin + headers(1)), std::nullopt);
  EXPECT_EQ(send(http2_header(Http2::kSettings, 0, 0, (16 << 10) + 1)), Excess::kFrameSize);
  reconnect();
  ASSERT_EQ(send(kBegin + headers(1)), std::nullopt);
  EXPECT_EQ(send(http2_header(Http2::kData, 0, 1, (1 << 20) + 1)), Excess::kFrameSize);
}

TEST_F(FrameMeterTest, CutsTooManyOpenStreams) {
  ASSERT_EQ(send(kBegin + calls(8)), std::nullopt);
  EXPECT_EQ(send(headers(101)), Excess::kOpenStreams);
  reconnect();
  ASSERT_EQ(send(kBegin + calls(8)), std::nullopt);
  reply(answer(3));
  EXPECT_EQ(send(headers(101)), std::nullopt);
}

TEST_F(FrameMeterTest, CutsTooManyNewStreams) {
  ASSERT_EQ(send(kBegin), std::nullopt);
  for (std::uint32_t i = 0; i < 20; ++i) {
    ASSERT_EQ(send(headers(2 * i + 1)), std::nullopt) << i;
    reply(answer(2 * i + 1));
  }
  EXPECT_EQ(send(headers(101)), Excess::kNewStreams);
}

TEST_F(FrameMeterTest, CutsTooMuchDataOfCallsWithoutAnswer) {
  const auto data = [](std::uint32_t stream) {
    return http2_frame(Http2::kData, 0, stream, std::string(1 << 20, 'x'));
  };
  ASSERT_EQ(send(kBegin + calls(3) + data(1) + data(3)), std::nullopt);
  reply(answer(3));
  ASSERT_EQ(send(data(5)), std::nullopt);
  EXPECT_EQ(send(http2_frame(Http2::kData, 0, 1, "x")), Excess::kBytesInFlight);
}

TEST_F(FrameMeterTest, CutsManySmallFramesOfDataAsIfTheyWereLonger) {
  ASSERT_EQ(send(kBegin + calls(1)), std::nullopt);
  ASSERT_EQ(send(repeated(http2_frame(Http2::kData, 0, 1), (2 << 20) / 64)), std::nullopt);
  EXPECT_EQ(send(http2_frame(Http2::kData, 0, 1)), Excess::kBytesInFlight);
}

TEST_F(FrameMeterTest, AStreamEndsByEitherSidesResetOrTheServersEnd) {
  ASSERT_EQ(send(kBegin + calls(3)), std::nullopt);
  ASSERT_EQ(send(reset(1)), std::nullopt);
  reply(http2_frame(Http2::kReset, 0, 3, "code"));
  reply(http2_frame(Http2::kData, Http2::kEndStream, 5));
  EXPECT_EQ(meter_->open_streams(), 0U);
  EXPECT_EQ(account_.used(Resource::kRequests), 0U);
}

TEST_F(FrameMeterTest, TellsWhichCallsAreOldAndWhatTheyHaveSent) {
  EXPECT_FALSE(send(kBegin + calls(2)));
  const auto begun_by = now_;
  now_ += milliseconds(1);
  EXPECT_FALSE(send(calls(1, 2) + http2_frame(Http2::kData, 0, 1, std::string(1000, 'x'))));
  EXPECT_EQ(meter_->load(begun_by - milliseconds(1)).old_calls, 0U);
  const FrameMeter::Load load = meter_->load(begun_by);
  EXPECT_EQ(load.calls, 3U);
  EXPECT_EQ(load.old_calls, 2U);
  EXPECT_EQ(load.bytes, 1000U);
  reply(answer(1));
  EXPECT_EQ(meter_->load(begun_by).old_calls, 1U);
  EXPECT_EQ(meter_->load(now_).bytes, 0U);
}

TEST_F(FrameMeterTest, ConnectionsOfAUidShareItsAccount) {
  book_.set({.requests = 10, .request_bytes = 1000});
  FrameMeter one(limits_, of_uid_, account_);
  {
    FrameMeter other(limits_, of_uid_, account_);
    ASSERT_EQ(one.from_client(bytes_of(kBegin + calls(5)), now_), std::nullopt);
    ASSERT_EQ(other.from_client(bytes_of(kBegin + calls(5)), now_), std::nullopt);
    const std::string data = http2_frame(Http2::kData, 0, 1, std::string(600, 'd'));
    ASSERT_EQ(one.from_client(bytes_of(data), now_), std::nullopt);
    EXPECT_EQ(other.from_client(bytes_of(data), now_), Excess::kBytesInFlight);
    EXPECT_EQ(account_.used(Resource::kRequestBytes), 600U);
    EXPECT_EQ(one.from_client(bytes_of(headers(101)), now_), Excess::kOpenStreams);
  }
  EXPECT_EQ(account_.used(Resource::kRequests), 5U);
}

// Else calls could be given up without bounds, by new connections again and again.
TEST_F(FrameMeterTest, StreamsThatAConnectionLeavesOpenAreResets) {
  FrameRates few = kUidFrameRates;
  few.resets = {0.001, 4};
  Allowance of_uid(few);
  for (int i = 0; i < 5; ++i) ASSERT_EQ(call_and_leave(of_uid), std::nullopt) << i;
  EXPECT_EQ(call_and_leave(of_uid), Excess::kResets);
}

// Who tries again and again would else never get out of debt.
TEST_F(FrameMeterTest, StreamsThatWereRefusedAreNoResets) {
  FrameRates few = kUidFrameRates;
  few.resets = {0.001, 8};
  Allowance of_uid(few);
  for (int i = 0; i < 9; ++i) ASSERT_EQ(call_and_leave(of_uid), std::nullopt) << i;
  for (int i = 0; i < 7; ++i) EXPECT_EQ(call_and_leave(of_uid), Excess::kResets);
  now_ += std::chrono::seconds(2000);
  EXPECT_EQ(call_and_leave(of_uid), std::nullopt);
}

// Headers that are split at any byte are read as those that are not.
TEST_F(FrameMeterTest, ReadsAlikeHoweverBytesAreSplit) {
  const std::string sent = kBegin + calls(3) + http2_frame(Http2::kData, 0, 3, "data") + reset(5) +
                           http2_frame(Http2::kPing, 0, 0, "12345678") + calls(6, 3);
  for (std::size_t first = 0; first <= sent.size(); ++first) {
    reconnect();
    const auto of_first = send(std::string_view(sent).substr(0, first));
    const auto of_second = of_first ? of_first : send(std::string_view(sent).substr(first));
    EXPECT_EQ(of_second, std::nullopt) << first;
    EXPECT_EQ(meter_->open_streams(), 8U) << first;
    EXPECT_EQ(send(headers(101)), Excess::kOpenStreams) << first;
  }
  reconnect();
  for (const char byte : sent) ASSERT_EQ(send({&byte, 1}), std::nullopt);
  EXPECT_EQ(meter_->open_streams(), 8U);
}

TEST_F(FrameMeterTest, RandomBytesLeaveTheUidWithNothing) {
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): always the same
  std::size_t cuts = 0;
  for (int round = 0; round < 200; ++round) {
    reconnect();
    std::string bytes = kBegin;
    for (int frame = 0; frame < 50; ++frame) {
      const auto type = static_cast<std::uint8_t>(random() % 11);
      const auto flags = static_cast<std::uint8_t>(random());
      bytes += http2_frame(type, flags, static_cast<std::uint32_t>(random() % 20),
                           std::string(random() % 100, 'x'));
    }
    cuts += send(bytes) ? 1 : 0;
    EXPECT_LE(meter_->open_streams(), limits_.open_streams + 1);
    EXPECT_EQ(account_.used(Resource::kRequests), meter_->open_streams());
  }
  EXPECT_GT(cuts, 0U);
  meter_.reset();
  EXPECT_EQ(account_.used(Resource::kRequests), 0U);
  EXPECT_EQ(account_.used(Resource::kRequestBytes), 0U);
}

}  // namespace
}  // namespace memlease::server
