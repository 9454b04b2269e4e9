// Floods of HTTP/2 frames from another user, each of which makes gRPC take gigabytes where nothing
// stands before it (docs/decisions/0034-http2-gate.md).
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "memlease/v1/admin.pb.h"
#include "tests/integration/raw_control.h"
#include "tests/support/bystander.h"
#include "tests/support/goal.h"
#include "tests/support/http2_frames.h"
#include "tests/support/private_daemon.h"
#include "tests/support/unix_socket.h"

namespace memlease::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using Clock = std::chrono::steady_clock;

constexpr uid_t kFlooder = 4003;
constexpr uid_t kBystander = 4001;
constexpr std::chrono::seconds kMostBeforeCut{5};
constexpr std::uint64_t kMostGrowth = std::uint64_t{64} << 20;

const std::string kSettings = http2_frame(Http2::kSettings, 0, 0);
const std::string kNoWindow{"\0\4\0\0\0\0", 6};  // SETTINGS_INITIAL_WINDOW_SIZE is 0

std::string request(std::uint32_t stream) {
  static const std::string kBlock = grpc_request("/memlease.v1.Admin/ListArrays");
  return http2_frame(Http2::kHeaders, Http2::kEndHeaders, stream, kBlock) +
         http2_frame(Http2::kData, Http2::kEndStream, stream, std::string(5, '\0'));
}
std::string reset(std::uint32_t stream) {
  return http2_frame(Http2::kReset, 0, stream, std::string("\0\0\0\10", 4));
}
// One after the other, `pieces` of one each time that they are asked for.
std::function<std::string()> on_new_streams(
    std::uint32_t pieces, const std::function<std::string(std::uint32_t)>& piece) {
  return [=, stream = std::uint32_t{1}]() mutable {
    std::string all;
    for (std::uint32_t i = 0; i < pieces; ++i, stream += 2) all += piece(stream);
    return all;
  };
}
std::function<std::string()> always(std::string piece) {
  return [piece = std::move(piece)] { return piece; };
}

struct Flood {
  const char* name;
  const char* limit;  // as the log has it
  std::string begin;
  std::function<std::function<std::string()>()> more;  // for each connection
  bool reads = true;
  bool closes = false;  // after one piece, when the daemon has answered anything
};
void PrintTo(const Flood& flood, std::ostream* out) { *out << flood.name; }

const Flood kFloods[] = {
    {"Continuation", "header_block",
     kSettings + http2_frame(Http2::kHeaders, 0, 1, grpc_request("/memlease.v1.Admin/Status")),
     [] {
       const std::string field = http2_field(std::string(20, 'a'), std::string(100, 'b'));
       return always(http2_frame(Http2::kContinuation, 0, 1, repeated(field, 130)));
     }},
    {"EmptyContinuation", "header_block",
     kSettings + http2_frame(Http2::kHeaders, 0, 1, grpc_request("/memlease.v1.Admin/Status")),
     [] { return always(repeated(http2_frame(Http2::kContinuation, 0, 1), 1'000)); }},
    {"RapidReset", "resets", kSettings,
     [] {
       return on_new_streams(100,
                             [](std::uint32_t stream) { return request(stream) + reset(stream); });
     }},
    {"AbandonedCalls", "resets", kSettings, [] { return on_new_streams(60, request); }, false,
     true},
    {"UnreadReplies", "open_streams", http2_frame(Http2::kSettings, 0, 0, kNoWindow),
     [] { return on_new_streams(100, request); }, false},
    {"Pings", "pings", kSettings,
     [] { return always(repeated(http2_frame(Http2::kPing, 0, 0, "12345678"), 500)); }},
    {"UnreadPings", "pings", kSettings,
     [] { return always(repeated(http2_frame(Http2::kPing, 0, 0, "12345678"), 500)); }, false},
    {"Settings", "settings", kSettings,
     [] { return always(repeated(http2_frame(Http2::kSettings, 0, 0, kNoWindow), 500)); }, false},
    {"Priorities", "other_frames", kSettings,
     [] {
       return always(repeated(http2_frame(Http2::kPriority, 0, 1, std::string(5, '\1')), 500));
     }},
    {"HeaderFields", "header_bytes", kSettings, [] {
       return on_new_streams(10, [](std::uint32_t stream) {
         return http2_frame(
             Http2::kHeaders, Http2::kEndHeaders | Http2::kEndStream, stream,
             grpc_request("/memlease.v1.Admin/Status") + repeated(http2_field("a", ""), 3'000));
       });
     }}};

class Http2Floods : public ::testing::TestWithParam<Flood> {
 protected:
  static wire::UniqueFd connect(const PrivateDaemon& daemon) {
    EXPECT_EQ(::seteuid(kFlooder), 0);
    auto fd = connect_unix(daemon.directory() + "/control.sock", SOCK_STREAM);
    EXPECT_EQ(::seteuid(0), 0);
    return fd;
  }
  // Until it is cut, or the time is over: whether it was cut.
  static bool flood(const wire::UniqueFd& fd, const Flood& flood, Clock::time_point end) {
    const auto more = flood.more();
    std::string bytes = std::string(kHttp2Preface) + flood.begin + more();
    while (Clock::now() < end) {
      pollfd state{fd.get(), POLLOUT | POLLIN, 0};
      ::poll(&state, 1, 10);
      std::array<char, 65'536> replies;
      if (flood.reads && ::recv(fd.get(), replies.data(), replies.size(), MSG_DONTWAIT) == 0)
        return true;
      const ssize_t sent =
          ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno != EAGAIN) return true;
      if (sent > 0) bytes.erase(0, static_cast<std::size_t>(sent));
      if (!bytes.empty()) continue;
      if (flood.closes) {
        state.events = POLLIN;
        ::poll(&state, 1, 100);
        return false;
      }
      bytes = more();
    }
    return false;
  }

  PrivateDaemon daemon_{{"--socket-mode=0666", "--log-level=warning"}};
  PrivateDaemon other_{{"--socket-mode=0666", "--log-level=warning"}};
};
INSTANTIATE_TEST_SUITE_P(, Http2Floods, ::testing::ValuesIn(kFloods),
                         [](const auto& test) { return test.param.name; });

TEST_P(Http2Floods, AreCutBeforeGrpcGrows) {
  RawControl bystander(daemon_.directory(), kBystander);
  const auto answers = [&] {
    return wire::code_of(bystander.list("")) == wire::ErrorCode::kDenied;
  };
  // A busy machine takes its time to get there.
  const auto is_cut = [](const PrivateDaemon& daemon) {
    return daemon.log().find(std::string("limit=") + GetParam().limit) != std::string::npos;
  };
  ASSERT_TRUE(answers());  // that it has no token
  Bystander caller(daemon_, {kBystander, kBystander});
  const std::uint64_t before = daemon_.memory_bytes("VmRSS");
  std::size_t connections = 0;
  std::size_t cut = 0;
  std::size_t tries = 0;      // of both daemons
  Clock::duration longest{};  // until one was cut
  const auto flood_for_a_while = [&](const PrivateDaemon& daemon) {
    const auto end = Clock::now() + std::chrono::milliseconds(goal(400, 2'000));
    const auto latest = end + std::chrono::seconds(20);
    while (Clock::now() < end || (!is_cut(daemon) && Clock::now() < latest)) {
      const wire::UniqueFd fd = connect(daemon);
      if (!fd) continue;  // the backlog is full
      const auto begin = Clock::now();
      if (flood(fd, GetParam(), std::max(end, begin + std::chrono::milliseconds(50)))) {
        longest = std::max(longest, Clock::now() - begin);
        cut += &daemon == &daemon_ ? 1 : 0;
      }
      connections += &daemon == &daemon_ ? 1 : 0;
      if (++tries % 100 == 1) {
        EXPECT_TRUE(answers());
      }
    }
  };
  const auto [idle, elsewhere, flooded] = measure_in_turn(
      goal(1, 11), [&] { return caller.idle(std::chrono::milliseconds(goal(10, 2'000))); },
      [&] { return caller.during([&] { flood_for_a_while(other_); }); },
      [&] { return caller.during([&] { flood_for_a_while(daemon_); }); });
  EXPECT_LE(longest, kMostBeforeCut);
  if (is_proving()) expect_little_beside_flood({idle, elsewhere, flooded});
  EXPECT_TRUE(answers());
  const std::uint64_t most = daemon_.memory_bytes("VmHWM");
  EXPECT_LT(most, before + kMostGrowth) << connections << " connections";
  EXPECT_TRUE(is_cut(daemon_)) << daemon_.log();
  const auto metrics = daemon_.admin().metrics();
  ASSERT_TRUE(metrics.ok()) << metrics.status();
  EXPECT_THAT(
      metrics->text(),
      ContainsRegex(fmt::format("memlease_gate_cuts_total.limit=\"{}\". [1-9]", GetParam().limit)));
  reached(
      "{}: {} connections, of which {} were cut after {} ms at most; the daemon's memory {} KiB, "
      "then {} at most; calls of another user take 50 % {} us, 99 % {} us; beside a flood of "
      "another daemon {} us, {} us; beside that of this one {} us, {} us",
      GetParam().name, connections, cut,
      std::chrono::duration_cast<std::chrono::milliseconds>(longest).count(), before / 1024,
      most / 1024, idle.p50_us, idle.p99_us, elsewhere.p50_us, elsewhere.p99_us, flooded.p50_us,
      flooded.p99_us);
}

// As `mpirun -n 64` of one user.
TEST(Http2Gate, LetsAJobOf64RanksPass) {
  PrivateDaemon daemon({"--socket-mode=0666", "--log-level=warning"});
  std::vector<std::unique_ptr<RawControl>> ranks;
  for (int i = 0; i < 64; ++i) {
    ranks.push_back(std::make_unique<RawControl>(daemon.directory(), kBystander));
  }
  std::vector<std::thread> threads;
  for (const auto& rank : ranks) {
    threads.emplace_back([&rank] {
      for (int call = 0; call < 20; ++call) {
        EXPECT_EQ(wire::code_of(rank->list("")), wire::ErrorCode::kDenied);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(daemon.log(), Not(HasSubstr("limit=")));
}

}  // namespace
}  // namespace memlease::testing
