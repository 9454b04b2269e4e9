// Metrics over HTTP, on real sockets and the daemon's own loop, with peers of every kind.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/scrape/http_endpoint.h"
#include "server/scrape/loopback.h"
#include "tests/support/open_files.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/unix_socket.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kGet = "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n";

class HttpEndpointTest : public ::testing::Test {
 public:
  ~HttpEndpointTest() override {
    for (auto& [fd, peer] : peers_) loop_->remove(fd);
    peers_.clear();
    endpoint_.reset();
    loop_.reset();
    EXPECT_TRUE(testing::closes_all_but(files_before_));
  }

 protected:
  HttpEndpointTest() : files_before_(testing::open_files()), loop_(*EventLoop::create()) {}

  void serve(const HttpEndpoint::Limits& limits = {}) {
    auto listener = testing::bind_unix(path_, SOCK_STREAM);
    ASSERT_EQ(::listen(listener.get(), 64), 0);
    auto endpoint = HttpEndpoint::start(
        *loop_, std::move(listener),
        [this] {
          ++made_;
          return page_;
        },
        limits);
    ASSERT_TRUE(endpoint.ok()) << endpoint.status();
    endpoint_ = *std::move(endpoint);
  }

  // A peer, by its descriptor, whose answer is collected; the loop stops at its end.
  int connect(const std::string& request) {
    auto fd = testing::connect_unix(path_, SOCK_STREAM | SOCK_NONBLOCK);
    EXPECT_TRUE(fd);
    const int number = fd.get();
    peers_[number].fd = std::move(fd);
    say(number, request);
    EXPECT_TRUE(loop_->add(number, EPOLLIN, [this, number](std::uint32_t) { read(number); }).ok());
    return number;
  }
  void say(int peer, const std::string& text) {
    EXPECT_EQ(::send(peer, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  void read(int number) {
    Peer& peer = peers_.at(number);
    std::array<char, 65536> bytes;
    const ssize_t count = ::recv(number, bytes.data(), bytes.size(), 0);
    if (count < 0 && errno == EAGAIN) return;
    if (count > 0) {
      peer.answer.append(bytes.data(), static_cast<std::size_t>(count));
      return;
    }
    peer.ended = true;
    loop_->remove(number);
    loop_->stop();
  }
  // Lets the loop run until the peer has seen the end.
  std::string answer(int peer) {
    while (!peers_.at(peer).ended) loop_->run();
    return peers_.at(peer).answer;
  }
  std::string ask(const std::string& request) { return answer(connect(request)); }

  struct Peer {
    wire::UniqueFd fd;
    std::string answer;
    bool ended = false;
  };
  const std::set<std::string> files_before_;
  const testing::TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/metrics.sock";
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<HttpEndpoint> endpoint_;
  std::map<int, Peer> peers_;
  std::string page_ = "up 1\n";
  int made_ = 0;
};

TEST_F(HttpEndpointTest, GivesThePageAndEndsTheConnection) {
  serve();
  EXPECT_EQ(ask(kGet),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
            "Content-Length: 5\r\nConnection: close\r\n\r\nup 1\n");
  EXPECT_THAT(ask("GET /metrics?name[]=up HTTP/1.0\n\n"), HasSubstr("\r\n\r\nup 1\n"));
}

TEST_F(HttpEndpointTest, AHeadHasNoBody) {
  serve();
  const std::string answer = ask("HEAD /metrics HTTP/1.1\r\n\r\n");
  EXPECT_THAT(answer, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(answer, ::testing::EndsWith("\r\n\r\n"));
}

TEST_F(HttpEndpointTest, ARequestMayComeInPieces) {
  serve();
  const int peer = connect("GET /met");
  loop_->after(milliseconds(0), [&] { say(peer, "rics HTTP/1.1\r\n"); });
  loop_->after(milliseconds(1), [&] { say(peer, "\r\n"); });
  EXPECT_THAT(answer(peer), HasSubstr("up 1\n"));
}

TEST_F(HttpEndpointTest, AnythingElseIsRefusedInHttpsWords) {
  serve();
  EXPECT_THAT(ask("GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(ask("POST /metrics HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(ask("PRI * HTTP/2.0\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask("\n\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask(std::string(9000, 'x')), StartsWith("HTTP/1.1 431 "));
  EXPECT_EQ(made_, 0);
}

TEST_F(HttpEndpointTest, APageLargerThanASocketsBufferArrivesWhole) {
  page_ = std::string(8 << 20, 'm');
  serve();
  const std::string answer = ask(kGet);
  EXPECT_EQ(answer.size() - answer.find("\r\n\r\n") - 4, page_.size());
}

TEST_F(HttpEndpointTest, WhoeverAsksOftenGetsThePageOfTheLastSecond) {
  serve();
  for (int i = 0; i < 20; ++i) ask(kGet);
  EXPECT_LE(made_, 20 / 2) << "unless each question takes half a second";
  HttpEndpoint::Limits limits;
  limits.fresh = milliseconds(0);
  endpoint_.reset();
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  serve(limits);
  made_ = 0;
  for (int i = 0; i < 3; ++i) ask(kGet);
  EXPECT_EQ(made_, 3);
}

TEST_F(HttpEndpointTest, WhoSaysNothingIsLetGoInTime) {
  HttpEndpoint::Limits limits;
  limits.connection = milliseconds(20);
  serve(limits);
  EXPECT_EQ(ask(""), "");
  EXPECT_EQ(ask("GET /metrics HTTP/1.1\r\n"), "");
  EXPECT_EQ(endpoint_->connections(), 0U);
}

TEST_F(HttpEndpointTest, WhoDoesNotReadIsLetGoInTime) {
  page_ = std::string(8 << 20, 'm');
  HttpEndpoint::Limits limits;
  limits.connection = milliseconds(20);
  serve(limits);
  const int peer = connect(kGet);
  loop_->remove(peer);  // it reads nothing
  loop_->after(milliseconds(1), [&] { EXPECT_EQ(endpoint_->connections(), 1U); });
  loop_->after(milliseconds(60), [&] { loop_->stop(); });
  loop_->run();
  EXPECT_EQ(endpoint_->connections(), 0U);
}

TEST_F(HttpEndpointTest, SilentPeersDoNotKeepOthersOut) {
  serve();
  std::vector<int> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(connect(""));
  EXPECT_THAT(ask(kGet), HasSubstr("up 1\n"));
  EXPECT_LE(endpoint_->connections(), 8U);
  EXPECT_EQ(answer(silent.front()), "") << "the oldest had to go";
}

TEST_F(HttpEndpointTest, WhoGoesOnTalkingIsCutOff) {
  serve();
  const int peer = connect(kGet);
  EXPECT_THAT(answer(peer), HasSubstr("up 1\n"));
  say(peer, std::string(20'000, 'x'));
  loop_->after(milliseconds(0), [&] { loop_->after(milliseconds(50), [&] { loop_->stop(); }); });
  loop_->run();
  EXPECT_EQ(endpoint_->connections(), 0U);
}

TEST_F(HttpEndpointTest, APortOfThisMachineCanBeAsked) {
  for (const Loopback address : {Loopback::kIpv4, Loopback::kIpv6}) {
    auto listener = listen_on_loopback(address, 0);
    if (!listener.ok() && address == Loopback::kIpv6) continue;  // this machine has none
    ASSERT_TRUE(listener.ok()) << listener.status();
    const std::string at = address_of(*listener);
    EXPECT_THAT(at, StartsWith(address == Loopback::kIpv4 ? "127.0.0.1:" : "[::1]:"));
    const auto port = static_cast<std::uint16_t>(std::stoi(at.substr(at.rfind(':') + 1)));
    EXPECT_GT(port, 0);
    const auto taken = listen_on_loopback(address, port);
    EXPECT_THAT(wire::message_of(taken.status()), HasSubstr("listening on " + at));
    EXPECT_THAT(wire::hint_of(taken.status()), HasSubstr("Another program has the port"));
  }
}

}  // namespace
}  // namespace memlease::server
