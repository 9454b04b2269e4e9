// Users whose sockets take the kernel long: they are told nothing, since each word would take it
// long again. What they have sent is closed with the connection, which their end learns.
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <string>

#include "gmock/gmock.h"
#include "tests/server/rpc/grpc_fixture.h"
#include "tests/support/http2_frames.h"
#include "tests/support/readable.h"
#include "tests/support/resting_user.h"
#include "wire/error.h"

namespace memlease::testing {
namespace {

void send_word(const wire::UniqueFd& fd) {
  EXPECT_EQ(::send(fd.get(), "word", 4, MSG_NOSIGNAL), 4);
}

// "reset", or "end" where nothing that was sent is closed with the connection.
std::string last_word(const wire::UniqueFd& fd) {
  char byte = 0;
  if (!readable(fd.get())) return "timeout";
  const ssize_t count = ::recv(fd.get(), &byte, 1, 0);
  if (count == -1 && errno == ECONNRESET) return "reset";
  return count == 0 ? "end" : "a word";
}

TEST_F(GrpcServerTest, WhoRestsIsRefusedWithoutAWord) {
  book_.connected = [](uid_t /*uid*/) {
    return wire::make_error(wire::ErrorCode::kQuotaExceeded, "enough", "Wait.");
  };
  start();
  const auto refused = [this](bool rests) {
    wire::UniqueFd client;
    on_loop([&] {
      if (rests) make_rest(*loop_, kOtherUid);
      client = connect_as(kOtherUid, path_);  // is accepted after this
      send_word(client);
      EXPECT_EQ(loop_->rests(kOtherUid), rests) << "this has shown nothing: it took too long";
    });
    return last_word(client);
  };
  EXPECT_EQ(refused(false), "end");
  EXPECT_EQ(refused(true), "reset");
}

TEST_F(GrpcServerTest, ShutdownTellsNothingToWhoRests) {
  const auto told_at_shutdown = [this](bool rests) {
    start();
    const wire::UniqueFd silent = connect_as(kOtherUid, path_);
    const wire::UniqueFd relayed = connect_as(kOtherUid, path_);
    const std::string hello = std::string(kHttp2Preface) + http2_frame(Http2::kSettings, 0, 0);
    EXPECT_EQ(::send(relayed.get(), hello.data(), hello.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(hello.size()));
    EXPECT_TRUE(readable(relayed.get())) << "gRPC has not said hello";
    EXPECT_TRUE(eventually_connected(2));
    on_loop([&] {
      if (rests) make_rest(*loop_, kOtherUid);
      send_word(silent);
      send_word(relayed);
      server_->shutdown(std::chrono::system_clock::now());
      EXPECT_EQ(loop_->rests(kOtherUid), rests) << "this has shown nothing: it took too long";
    });
    const std::string go_away = http2_header(Http2::kGoAway, 0, 0, 0).substr(3);
    const bool goes_away = read_to_end(relayed.get()).find(go_away) != std::string::npos;
    stop();
    return last_word(silent) + (goes_away ? ", go away" : ", nothing");
  };
  EXPECT_EQ(told_at_shutdown(false), "end, go away");
  EXPECT_EQ(told_at_shutdown(true), "reset, nothing");
}

}  // namespace
}  // namespace memlease::testing
