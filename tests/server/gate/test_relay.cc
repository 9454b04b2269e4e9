#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "server/gate/relay.h"
#include "tests/support/http2_frames.h"
#include "tests/support/lingering_socket.h"
#include "tests/support/open_files.h"

namespace memlease::server {
namespace {

using std::chrono::milliseconds;
using testing::Http2;
using testing::http2_frame;
using testing::repeated;

const std::string kHello =
    std::string(testing::kHttp2Preface) + http2_frame(Http2::kSettings, 0, 0);

std::string call(std::uint32_t stream) {
  return http2_frame(Http2::kHeaders, Http2::kEndHeaders, stream, "header block") +
         http2_frame(Http2::kData, Http2::kEndStream, stream, "message");
}

struct Pair {
  Pair() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    ours.reset(ends[0]);
    relays.reset(ends[1]);
  }
  wire::UniqueFd ours;
  wire::UniqueFd relays;
};

// The test is the client and gRPC, and turns the loop.
class RelayTest : public ::testing::Test {
 public:
  ~RelayTest() override {
    relay_.reset();
    loop_.reset();
    client_.ours.reset();
    grpc_.ours.reset();
    EXPECT_TRUE(testing::closes_all_but(files_before_));
  }

 protected:
  void start(const GateLimits& limits = {}) {
    auto relay = Relay::start(
        *loop_, ClientSocket(std::move(client_.relays)), std::move(grpc_.relays), limits, of_uid_,
        account_, [this] { ++moves_; },
        [this](std::optional<Excess> excess) {
          ends_ += 1;
          excess_ = excess;
          relay_.reset();
          loop_->stop();
        });
    ASSERT_TRUE(relay.ok()) << relay.status();
    relay_ = *std::move(relay);
  }
  // Until nothing is ready any more.
  void turn() {
    for (int i = 0; i < 20; ++i) {
      loop_->stop();
      loop_->run();
    }
  }
  static std::size_t send(const wire::UniqueFd& fd, std::string_view bytes) {
    const ssize_t count = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return count < 0 ? 0 : static_cast<std::size_t>(count);
  }
  // As much as the socket takes, and the relay behind it.
  std::size_t send_all(const wire::UniqueFd& fd, std::string_view bytes) {
    std::size_t sent = 0;
    for (int idle = 0; sent < bytes.size() && idle < 3;) {
      const std::size_t count = send(fd, bytes.substr(sent));
      sent += count;
      idle = count == 0 ? idle + 1 : 0;
      turn();
    }
    return sent;
  }
  static std::string read(const wire::UniqueFd& fd) {
    std::string all(1 << 20, '\0');
    const ssize_t count = ::recv(fd.get(), all.data(), all.size(), 0);
    all.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return all;
  }
  std::string read_all(const wire::UniqueFd& fd) {
    std::string all;
    for (std::string some = read(fd); !some.empty(); some = read(fd)) {
      all += some;
      turn();
    }
    return all;
  }
  static bool has_ended(const wire::UniqueFd& fd) {
    pollfd state{fd.get(), POLLRDHUP, 0};
    return ::poll(&state, 1, 0) == 1;
  }

  const std::set<std::string> files_before_ = testing::open_files();
  std::unique_ptr<EventLoop> loop_ = *EventLoop::create();
  Pair client_;
  Pair grpc_;
  const AccountLimits no_limits_{{}, "quota_", "host"};
  Account account_{1000, no_limits_};
  Allowance of_uid_{kUidFrameRates};
  std::unique_ptr<Relay> relay_;
  int ends_ = 0;
  int moves_ = 0;
  std::optional<Excess> excess_;
};

TEST_F(RelayTest, PassesBytesBothWays) {
  start();
  std::string sent = kHello;
  for (std::uint32_t i = 0; i < 50; ++i) sent += call(2 * i + 1);
  EXPECT_EQ(send_all(client_.ours, sent), sent.size());
  EXPECT_EQ(read_all(grpc_.ours), sent);
  const int moves = moves_;
  EXPECT_GT(moves, 0);
  const std::string reply = http2_frame(Http2::kData, Http2::kEndStream, 1, "reply");
  EXPECT_EQ(send_all(grpc_.ours, reply), reply.size());
  EXPECT_EQ(read_all(client_.ours), reply);
  EXPECT_GT(moves_, moves);
  EXPECT_EQ(account_.used(Resource::kRequests), 49U);
  EXPECT_EQ(ends_, 0);
}

TEST_F(RelayTest, EndsWithDescriptorsAndWaitsForNone) {
  start();
  EXPECT_EQ(send_all(client_.ours, kHello), kHello.size());
  testing::LingeringSocket lingering;
  const std::string next = call(1);
  lingering.send_along(client_.ours.get(), std::as_bytes(std::span(next)));
  turn();
  EXPECT_EQ(ends_, 1);
  EXPECT_FALSE(excess_);
  EXPECT_EQ(read_all(grpc_.ours), kHello);
  EXPECT_EQ(lingering.take_bytes(), lingering.sent_bytes);
}

TEST_F(RelayTest, PassesALongReplyToAClientThatReadsSlowly) {
  start();
  send_all(client_.ours, kHello + call(1));
  const std::string reply = http2_frame(Http2::kData, 0, 1, std::string(3 << 20, 'r'));
  std::string got;
  for (std::size_t sent = 0; got.size() < reply.size();) {
    sent += send_all(grpc_.ours, std::string_view(reply).substr(sent));
    const std::string some = read_all(client_.ours);
    ASSERT_FALSE(some.empty()) << sent;
    got += some;
  }
  EXPECT_EQ(got, reply);
  EXPECT_EQ(ends_, 0);
}

TEST_F(RelayTest, ReadsNoRequestWhileAReplyWaits) {
  start();
  ASSERT_EQ(send_all(client_.ours, kHello + call(1)), (kHello + call(1)).size());
  read_all(grpc_.ours);
  const std::string reply = http2_frame(Http2::kData, 0, 1, std::string(2 << 20, 'r'));
  std::size_t sent = send_all(grpc_.ours, reply);
  ASSERT_LT(sent, reply.size());
  send(client_.ours, call(3));
  turn();
  EXPECT_EQ(read(grpc_.ours), "");
  std::string got = read_all(client_.ours);
  while (got.size() < reply.size()) {
    sent += send_all(grpc_.ours, std::string_view(reply).substr(sent));
    got += read_all(client_.ours);
  }
  EXPECT_EQ(got, reply);
  EXPECT_EQ(read(grpc_.ours), call(3));
}

// gRPC stops reading, too, when it has much to do.
TEST_F(RelayTest, ReadsNoMoreThanGrpcTakes) {
  start();
  const std::string frame = http2_frame(Http2::kPriority, 0, 1, std::string(16'000, 'p'));
  const std::string flood = kHello + repeated(frame, 200);
  const std::size_t sent = send_all(client_.ours, flood);
  EXPECT_LT(sent, flood.size());
  EXPECT_EQ(ends_, 0);
  std::string got = read_all(grpc_.ours);
  for (std::size_t more = sent; got.size() < flood.size();) {
    more += send_all(client_.ours, std::string_view(flood).substr(more));
    got += read_all(grpc_.ours);
  }
  EXPECT_EQ(got, flood);
}

TEST_F(RelayTest, CutsAFloodAndGrpcSeesTheEnd) {
  start();
  send_all(client_.ours, kHello + repeated(http2_frame(Http2::kPing, 0, 0, "12345678"), 10'000));
  EXPECT_EQ(ends_, 1);
  EXPECT_EQ(excess_, Excess::kPings);
  EXPECT_TRUE(has_ended(client_.ours));
  EXPECT_TRUE(has_ended(grpc_.ours));
}

TEST_F(RelayTest, GivesGrpcNothingOfWhatIsNotHttp2) {
  start();
  send_all(client_.ours, "GET / HTTP/1.1\r\n\r\n");
  EXPECT_EQ(excess_, Excess::kNotHttp2);
  EXPECT_EQ(read(grpc_.ours), "");
}

TEST_F(RelayTest, AnAnswerThatWaitsForTheClientCountsAsACall) {
  start();
  const auto calls = [&] { return relay_->load(FrameMeter::Clock::now()).calls; };
  send_all(client_.ours, kHello + call(1));
  read_all(grpc_.ours);
  EXPECT_EQ(calls(), 1U);
  send_all(grpc_.ours, http2_frame(Http2::kData, Http2::kEndStream, 1, std::string(1 << 20, 'r')));
  EXPECT_EQ(calls(), 1U);
  read_all(client_.ours);
  EXPECT_EQ(calls(), 0U);
}

TEST_F(RelayTest, CutsAClientThatDoesNotRead) {
  start({.unread = milliseconds(1)});
  send_all(client_.ours, kHello + call(1));
  read_all(grpc_.ours);
  send(grpc_.ours, http2_frame(Http2::kData, 0, 1, std::string(1 << 17, 'r')));
  while (ends_ == 0) {
    send(grpc_.ours, std::string(1 << 17, 'r'));
    loop_->stop();
    loop_->run();
  }
  EXPECT_EQ(excess_, Excess::kUnreadReplies);
  EXPECT_EQ(ends_, 1);
}

TEST_F(RelayTest, EndsWithTheClientAfterItsLastBytes) {
  start();
  send(client_.ours, kHello + call(1));
  client_.ours.reset();
  turn();
  EXPECT_EQ(ends_, 1);
  EXPECT_EQ(excess_, std::nullopt);
  EXPECT_EQ(read(grpc_.ours), kHello + call(1));
  EXPECT_TRUE(has_ended(grpc_.ours));
  EXPECT_EQ(account_.used(Resource::kRequests), 0U);
}

TEST_F(RelayTest, EndsWithGrpcAfterItsLastBytes) {
  start();
  const std::string goodbye = http2_frame(Http2::kGoAway, 0, 0, std::string(1 << 18, 'g'));
  const std::size_t sent = send_all(grpc_.ours, goodbye);
  ::shutdown(grpc_.ours.get(), SHUT_WR);
  turn();
  EXPECT_EQ(ends_, 0);
  EXPECT_EQ(read_all(client_.ours), goodbye.substr(0, sent));
  EXPECT_EQ(ends_, 1);
  EXPECT_EQ(excess_, std::nullopt);
}

TEST_F(RelayTest, GivesGrpcWhatACloserHasSentWhenGrpcTakesItLate) {
  start();
  const std::string frame = http2_frame(Http2::kPriority, 0, 1, std::string(16'000, 'p'));
  const std::string flood = kHello + repeated(frame, 200);
  const std::size_t sent = send_all(client_.ours, flood);
  ASSERT_LT(sent, flood.size());
  client_.ours.reset();
  turn();
  EXPECT_EQ(ends_, 0);
  EXPECT_EQ(read_all(grpc_.ours), flood.substr(0, sent));
  EXPECT_EQ(ends_, 1);
}

TEST_F(RelayTest, DeliversLastWordsWithoutTheLoop) {
  start();
  send_all(client_.ours, kHello);
  send(grpc_.ours, "last words");
  relay_->deliver();
  EXPECT_EQ(read(client_.ours), "last words");
  EXPECT_EQ(ends_, 0);
}

}  // namespace
}  // namespace memlease::server
