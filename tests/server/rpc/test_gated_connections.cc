// Connections of other users than the daemon's own, whose frames are measured before gRPC has them.
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "tests/server/rpc/grpc_fixture.h"
#include "tests/support/http2_frames.h"
#include "tests/support/unix_socket.h"
#include "wire/grpc/convert.h"

namespace memlease::testing {
namespace {

using server::Excess;
using std::chrono::milliseconds;
using ::testing::HasSubstr;
using namespace std::string_literals;

const std::string kPings = std::string(kHttp2Preface) + http2_frame(Http2::kSettings, 0, 0) +
                           repeated(http2_frame(Http2::kPing, 0, 0, "12345678"), 2'000);

// All of it, unless the other side closes first.
void send_all(const wire::UniqueFd& fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

TEST_F(GrpcServerTest, OtherUsersManyCallsPassTheGate) {
  start();
  std::vector<std::thread> threads;
  for (int i = 0; i < 16; ++i) {
    threads.emplace_back([client = client_of(kOtherUid)]() mutable {
      for (int call = 0; call < 100; ++call) EXPECT_EQ(client.who_am_i(), "12345");
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < server::kExcessNames.size(); ++i) {
    EXPECT_EQ(server_->gate_cuts().of(static_cast<Excess>(i)), 0U) << server::kExcessNames.at(i);
  }
}

TEST_F(GrpcServerTest, AnotherUsersFloodIsCutCountedAndNamed) {
  server::GrpcLimits limits{.linger = milliseconds(0)};
  limits.gate.connection.rates.pings = {0.001, 100};  // before gRPC, too, has enough of them
  start(limits);
  log_.set_level(server::LogLevel::kWarning);
  ::testing::internal::CaptureStderr();
  GrpcClient bystander = client_of(kOtherUid + 1);
  EXPECT_EQ(bystander.who_am_i(), "12346");
  for (int i = 0; i < 10; ++i) {
    const wire::UniqueFd flood = connect_as(kOtherUid, path_);
    send_all(flood, kPings);
    EXPECT_NE(read_to_end(flood.get()), "timeout");
  }
  EXPECT_TRUE(eventually_connected(1));
  EXPECT_EQ(bystander.who_am_i(), "12346");
  EXPECT_EQ(server_->gate_cuts().of(Excess::kPings), 10U);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("uid=12345"));
  EXPECT_THAT(log, HasSubstr("limit=pings"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 5) << log;
}

TEST_F(GrpcServerTest, CallsBeyondAUsersAccountAreCutAndNobodyElses) {
  quota_.set_limits({.requests = 2});
  start();
  log_.set_level(server::LogLevel::kWarning);
  ::testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  std::vector<GrpcClient> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(client_of(kOtherUid));
  GrpcClient bystander = client_of(kOtherUid + 1);
  for (std::size_t i = 0; i < 2; ++i) {
    threads.emplace_back(
        [&client = clients[i]] { EXPECT_EQ(client.wait(), grpc::StatusCode::OK); });
  }
  EXPECT_TRUE(eventually([&] { return handlers_.waiting == 2; }));
  const auto requests = [&] { return on_loop([&] { return quota_.used_by(kOtherUid).requests; }); };
  EXPECT_EQ(requests(), 2U);
  EXPECT_NE(clients[2].who_am_i(), "12345");
  EXPECT_EQ(bystander.who_am_i(), "12346");
  EXPECT_EQ(client().who_am_i(), "0");
  handlers_.release = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(eventually([&] { return requests() == 0; }));
  EXPECT_EQ(clients[0].who_am_i(), "12345") << "who was within the limit has lost nothing";
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("limit=open_streams"));
  EXPECT_THAT(log, HasSubstr("quota_requests"));
}

// It is not protected from itself, and pays nothing for the gate.
TEST_F(GrpcServerTest, TheDaemonsOwnUserHasNoGate) {
  start();
  const wire::UniqueFd flood = connect_unix(path_, SOCK_STREAM);
  send_all(flood, kPings);
  EXPECT_EQ(client().who_am_i(), "0");
  EXPECT_EQ(server_->gate_cuts().of(Excess::kPings), 0U);
}

// It takes no answer, however wide its windows are open.
TEST_F(GrpcServerTest, ShutdownWaitsForNoClientThatDoesNotRead) {
  start();
  const std::string wide = "\0\4\x40\0\0\0"s;  // SETTINGS_INITIAL_WINDOW_SIZE
  const std::string message = "\0\0\0\0\7\x0a\5"s + std::string(kLargeReply);
  const std::string call = std::string(kHttp2Preface) + http2_frame(Http2::kSettings, 0, 0, wide) +
                           http2_frame(Http2::kWindowUpdate, 0, 0, "\x3f\0\0\0"s) +
                           http2_frame(Http2::kHeaders, Http2::kEndHeaders, 1,
                                       grpc_request("/memlease.v1.Control/List")) +
                           http2_frame(Http2::kData, Http2::kEndStream, 1, message);
  std::vector<wire::UniqueFd> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(connect_as(kOtherUid, path_));
    send_all(clients.back(), call);
  }
  for (const wire::UniqueFd& client : clients) {
    EXPECT_TRUE(eventually([&] {
      int bytes = 0;
      return ::ioctl(client.get(), FIONREAD, &bytes) == 0 && bytes > 4096;
    }));
  }
  on_loop([this] { server_->shutdown(std::chrono::system_clock::now()); });
  EXPECT_EQ(handlers_.services, 0);
}

// Calls that are never finished, on one connection.
wire::UniqueFd hang(uid_t uid, std::uint32_t calls, const std::string& path) {
  std::string bytes = std::string(kHttp2Preface) + http2_frame(Http2::kSettings, 0, 0);
  for (std::uint32_t i = 0; i < calls; ++i) {
    bytes += http2_frame(Http2::kHeaders, Http2::kEndHeaders, (2 * i) + 1,
                         grpc_request("/memlease.v1.Control/LookUp"));
  }
  wire::UniqueFd fd = connect_as(uid, path);
  send_all(fd, bytes);
  return fd;
}

TEST_F(GrpcServerTest, ForWantOfMemoryWhoHasMostCallsIsCutAndKeptOutAWhile) {
  start({.linger = milliseconds(0), .untaken = kEver, .kept_out = milliseconds(1500)});
  log_.set_level(server::LogLevel::kWarning);
  ::testing::internal::CaptureStderr();
  const auto under_way = [&](uid_t uid) {
    return on_loop([&] { return quota_.used_by(uid).requests; });
  };
  GrpcClient idle = client_of(kOtherUid);
  EXPECT_EQ(idle.who_am_i(), "12345");
  std::vector<wire::UniqueFd> hung;
  for (int i = 0; i < 8; ++i) hung.push_back(hang(kOtherUid, 60, path_));
  hung.push_back(hang(kOtherUid + 1, 59, path_));
  EXPECT_TRUE(eventually([&] { return under_way(kOtherUid) == 480U; }));
  EXPECT_TRUE(eventually([&] { return under_way(kOtherUid + 1) == 59U; }));
  EXPECT_TRUE(on_loop([&] { return server_->cut_largest(); }));
  EXPECT_NE(client_of(kOtherUid).who_am_i(), "12345");
  EXPECT_EQ(server_->gate_cuts().of(Excess::kMemory), 8U);
  for (int i = 0; i < 8; ++i) EXPECT_NE(read_to_end(hung.at(i).get()), "timeout");
  EXPECT_TRUE(eventually([&] { return under_way(kOtherUid) == 0U; }));
  EXPECT_TRUE(eventually([&] { return idle.who_am_i() == "12345"; }))
      << "a connection without calls takes no memory; gRPC gets its threads back";
  EXPECT_EQ(client_of(kOtherUid + 1).who_am_i(), "12346");
  EXPECT_TRUE(eventually([&] { return client_of(kOtherUid).who_am_i() == "12345"; }));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("the daemon needs its memory"));
  EXPECT_THAT(log, HasSubstr("uid=12345"));
  EXPECT_THAT(log, HasSubstr("limit=memory"));
}

// Who keeps gRPC busy need not call anything of ours.
TEST_F(GrpcServerTest, WhileManyCallsAreUnderWayThatIsToldAgainAndAgain) {
  std::atomic<int> told{0};
  book_.calls_keep_much = [&] { ++told; };
  start();
  std::vector<wire::UniqueFd> hung;
  for (int i = 0; i < 9; ++i) hung.push_back(hang(kOtherUid, 60, path_));
  EXPECT_TRUE(eventually([&] { return told > 3; }));
  hung.clear();
  EXPECT_TRUE(eventually_connected(0));
  const int before = told;
  GrpcClient client = client_of(kOtherUid);
  const auto end = std::chrono::steady_clock::now() + milliseconds(300);
  while (std::chrono::steady_clock::now() < end) EXPECT_EQ(client.who_am_i(), "12345");
  EXPECT_LE(told, before + 1) << "one may have been on its way";
}

TEST_F(GrpcServerTest, ForWantOfMemoryNobodyIsCutWhereThatBringsLittle) {
  start();
  const wire::UniqueFd hung = hang(kOtherUid, 18, path_);
  EXPECT_TRUE(eventually(
      [&] { return on_loop([&] { return quota_.used_by(kOtherUid).requests; }) == 18U; }));
  const auto cut = [&] { return on_loop([&] { return server_->cut_largest(); }); };
  const auto old = std::chrono::steady_clock::now() + milliseconds(200);
  while (std::chrono::steady_clock::now() < old) EXPECT_FALSE(cut());
  const wire::UniqueFd more = hang(kOtherUid, 4, path_);
  EXPECT_TRUE(eventually(cut));
  EXPECT_EQ(server_->gate_cuts().of(Excess::kMemory), 2U);
}

// What waits for an event has no answer yet that would take memory.
TEST_F(GrpcServerTest, ForWantOfMemoryFewAnswersThatNobodyTakesWeighMoreThanManyWaits) {
  auto waiting = quota_.charge(kOtherUid, server::Resource::kWaitingCalls, 200);
  ASSERT_TRUE(waiting.ok());
  start();
  std::vector<wire::UniqueFd> waits;
  for (int i = 0; i < 4; ++i) waits.push_back(hang(kOtherUid, 50, path_));
  const wire::UniqueFd hung = hang(kOtherUid + 1, 22, path_);
  EXPECT_TRUE(eventually([&] { return on_loop([&] { return server_->cut_largest(); }); }));
  EXPECT_EQ(server_->gate_cuts().of(Excess::kMemory), 1U);
  EXPECT_NE(read_to_end(hung.get()), "timeout");
}

TEST_F(GrpcServerTest, WhoTakesNoneOfManyAnswersIsCutAndNamed) {
  start({.linger = milliseconds(0), .untaken = milliseconds(100)});
  log_.set_level(server::LogLevel::kWarning);
  ::testing::internal::CaptureStderr();
  std::vector<wire::UniqueFd> few;
  for (int i = 0; i < 2; ++i) few.push_back(hang(kOtherUid + 1, 48, path_));
  std::vector<wire::UniqueFd> many;
  for (int i = 0; i < 3; ++i) many.push_back(hang(kOtherUid, 33, path_));
  for (const wire::UniqueFd& one : many) EXPECT_NE(read_to_end(one.get()), "timeout");
  EXPECT_NE(client_of(kOtherUid).who_am_i(), "12345") << "he would come back at once";
  EXPECT_EQ(server_->gate_cuts().of(Excess::kUnreadReplies), 3U);
  EXPECT_EQ(on_loop([&] { return quota_.used_by(kOtherUid + 1).requests; }), 96U);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("uid=12345"));
  EXPECT_THAT(log, HasSubstr("limit=unread_replies"));
}

// Whose library then tries again.
TEST_F(GrpcServerTest, WhoFindsNoThreadIsTurnedAway) {
  start();
  std::vector<std::thread> threads;
  std::vector<GrpcClient> clients;
  for (int i = 0; i < 140; ++i) clients.push_back(client_of(kOtherUid));
  std::atomic<int> turned_away{0};
  for (GrpcClient& client : clients) {
    threads.emplace_back([&] { turned_away += wire::is_turned_away(client.waited()) ? 1 : 0; });
  }
  EXPECT_TRUE(eventually([&] { return turned_away + handlers_.waiting == 140; }));
  EXPECT_GT(turned_away, 0);
  EXPECT_EQ(client_of(kOtherUid + 1).who_am_i(), "12346");
  handlers_.release = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(eventually([&] { return client_of(kOtherUid).who_am_i() == "12345"; }));
}

TEST_F(GrpcServerTest, WhoWaitsForADaemonThatStoodStillIsNotCut) {
  start({.linger = milliseconds(0), .untaken = milliseconds(500)});
  std::vector<std::thread> threads;
  std::vector<GrpcClient> clients;
  for (int i = 0; i < 60; ++i) clients.push_back(client_of(kOtherUid));
  for (GrpcClient& client : clients) {
    threads.emplace_back([&client] { EXPECT_EQ(client.wait(), grpc::StatusCode::OK); });
  }
  const wire::UniqueFd hung = hang(kOtherUid, 60, path_);
  EXPECT_TRUE(eventually([&] { return handlers_.waiting == 60; }));
  on_loop([&] {
    const auto end = std::chrono::steady_clock::now() + milliseconds(800);
    while (std::chrono::steady_clock::now() < end) std::this_thread::sleep_until(end);
    handlers_.release = true;
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(server_->gate_cuts().of(Excess::kUnreadReplies), 0U);
}

TEST_F(GrpcServerTest, WhatAUsersServerKeptMayBeGivenBackOnceItHasGone) {
  std::atomic<int> gone{0};
  book_.heap_is_free = [&] { ++gone; };
  start();
  {
    GrpcClient client = client_of(kOtherUid);
    EXPECT_EQ(client.who_am_i(), "12345");
    EXPECT_EQ(gone, 0);
  }
  EXPECT_TRUE(eventually([&] { return gone == 1; }));
}

TEST_F(GrpcServerTest, WhatCallsKeptThatWereCutMayBeGivenBack) {
  const auto free = std::make_shared<std::atomic<int>>(0);  // the server outlives this test
  book_.heap_is_free = [free] { ++*free; };
  start();
  GrpcClient other = client_of(kOtherUid);
  EXPECT_EQ(other.who_am_i(), "12345");
  const wire::UniqueFd hung = hang(kOtherUid, 60, path_);
  EXPECT_TRUE(eventually([&] { return on_loop([&] { return server_->cut_largest(); }); }));
  EXPECT_TRUE(eventually([&] { return *free == 1; }));
  EXPECT_EQ(other.who_am_i(), "12345") << "the server itself is still there";
}

// Nothing is kept for them yet.
TEST_F(GrpcServerTest, ManyCallsThatWaitAreNotCut) {
  auto waiting = quota_.charge(kOtherUid, server::Resource::kWaitingCalls, 200);
  ASSERT_TRUE(waiting.ok());
  std::atomic<int> looked{0};
  book_.calls_keep_much = [&] { ++looked; };
  start({.linger = milliseconds(0), .untaken = milliseconds(100)});
  std::vector<wire::UniqueFd> waits;
  for (int i = 0; i < 4; ++i) waits.push_back(hang(kOtherUid, 60, path_));
  EXPECT_TRUE(eventually([&] { return looked > 6; }));
  EXPECT_EQ(server_->gate_cuts().of(Excess::kUnreadReplies), 0U);
}

// However many uids he connects as.
TEST_F(GrpcServerTest, ForWantOfMemoryTheOnePayerOfManyUidsIsCut) {
  payers_.set({{kOtherUid, 1'000'000, 10}});
  start();
  const auto under_way = [&](uid_t uid) {
    return on_loop([&] { return quota_.used_by(uid).requests; });
  };
  std::vector<wire::UniqueFd> hung;
  for (int i = 0; i < 6; ++i) hung.push_back(hang(1'000'000U + static_cast<uid_t>(i), 60, path_));
  for (int i = 0; i < 4; ++i) hung.push_back(hang(kOtherUid + 1, 62, path_));
  EXPECT_TRUE(eventually([&] { return under_way(kOtherUid) == 360U; }));
  EXPECT_TRUE(eventually([&] { return under_way(kOtherUid + 1) == 248U; }));
  EXPECT_TRUE(on_loop([&] { return server_->cut_largest(); }));
  EXPECT_EQ(server_->gate_cuts().of(Excess::kMemory), 6U);
  EXPECT_NE(client_of(kOtherUid).who_am_i(), "12345");
}

// Else each new connection would have a burst of its own.
TEST_F(GrpcServerTest, WhoIsCutFindsTheUsersAllowanceAsItWas) {
  server::GrpcLimits limits{.linger = milliseconds(3'600'000)};
  limits.gate.uid.pings = {0.001, 100};
  start(limits);
  const std::string few = std::string(kHttp2Preface) + http2_frame(Http2::kSettings, 0, 0) +
                          repeated(http2_frame(Http2::kPing, 0, 0, "12345678"), 60);
  const wire::UniqueFd first = connect_as(kOtherUid, path_);
  send_all(first, few);
  const wire::UniqueFd second = connect_as(kOtherUid, path_);
  send_all(second, few);
  EXPECT_TRUE(eventually([&] { return server_->gate_cuts().of(Excess::kPings) == 1; }));
  const wire::UniqueFd third = connect_as(kOtherUid, path_);
  send_all(third, few);
  EXPECT_TRUE(eventually([&] { return server_->gate_cuts().of(Excess::kPings) == 2; }));
}

}  // namespace
}  // namespace memlease::testing
