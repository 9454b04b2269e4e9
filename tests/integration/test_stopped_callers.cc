// Processes that stop in the middle of a call: they keep no more threads of the daemon than a user
// may have, and little of its memory, and others' calls take as long as ever.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "memlease/v1/admin.pb.h"
#include "tests/support/bystander.h"
#include "tests/support/goal.h"
#include "tests/support/http2_frames.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"
#include "tests/support/raw_client.h"
#include "tests/support/unix_socket.h"

namespace memlease::testing {
namespace {

constexpr uid_t kStoppedUid = 4003;
constexpr Peer::User kBesideStopped{4001, 4001};
constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;
constexpr std::size_t kMostThreads = 128 + 8;  // of a user's server, and some that end

std::string call_of(const char* method, const std::string& message) {
  std::string prefixed(4, '\0');  // not compressed, and as short as the tests' messages are
  prefixed += static_cast<char>(message.size());
  return http2_frame(Http2::kHeaders, Http2::kEndHeaders, 1, grpc_request(method)) +
         http2_frame(Http2::kData, Http2::kEndStream, 1, prefixed + message);
}

// Says so to the control socket, reads nothing of the answers, and stops.
void stop_after(const std::string& directory, const std::string& frames) {
  const auto fd = connect_unix(directory + "/control.sock", SOCK_STREAM);
  const std::string bytes =
      std::string(kHttp2Preface) + http2_frame(Http2::kSettings, 0, 0) + frames;
  if (::send(fd.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size())) {
    ::raise(SIGSTOP);
  }
}

void stop_with_answers_unread(const std::string& directory) {
  std::string frames;
  for (std::uint32_t stream = 1; stream < 64; stream += 2) {
    frames += http2_frame(Http2::kHeaders, Http2::kEndHeaders, stream,
                          grpc_request("/memlease.v1.Admin/ListArrays"));
    frames += http2_frame(Http2::kData, Http2::kEndStream, stream, std::string(5, '\0'));
  }
  stop_after(directory, frames);
}
void stop_in_request(const std::string& directory) {
  const std::string all = call_of("/memlease.v1.Admin/ListArrays", std::string(40, '\0'));
  stop_after(directory, all.substr(0, all.size() - 20));
}
void stop_in_wait(const std::string& directory) {
  v1::HistoryRequest request;
  request.set_after(UINT64_MAX / 2);
  request.set_wait(true);
  stop_after(directory, call_of("/memlease.v1.Admin/History", request.SerializeAsString()));
}
void stop_with_files_unread(const std::string& directory) {
  RawClient client(directory);
  if (!client.attach()) return;
  for (std::uint32_t i = 0; i < 32; ++i) {
    if (!client.send(wire::FetchFrame{}, i)) return;
  }
  ::raise(SIGSTOP);
}

// A process of another user that stops itself; killed in the end.
class StoppedProcess {
 public:
  explicit StoppedProcess(const std::function<void()>& work) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::setgid(kStoppedUid) != 0 || ::setuid(kStoppedUid) != 0) ::_exit(2);
    work();
    ::_exit(1);
  }
  ~StoppedProcess() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  StoppedProcess(StoppedProcess&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  StoppedProcess& operator=(StoppedProcess&&) = delete;

  // Waits for the stop; false if it has ended instead.
  bool has_stopped() const {
    int status = 0;
    return ::waitpid(pid_, &status, WUNTRACED) == pid_ && WIFSTOPPED(status);
  }

 private:
  pid_t pid_;
};

TEST(StoppedCallers, HoldUpNobodyAndTakeLittle) {
  PrivateDaemon daemon({"--socket-mode=0666", "--log-level=warning"});
  {
    Peer owner(daemon.directory(), {4002, 4002});
    ASSERT_TRUE(owner.ask("connect").ok());
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(owner.ask(fmt::format("create listed/{} 1 644 8 session", i)).ok());
    }
    Bystander bystander(daemon, kBesideStopped);
    const std::chrono::milliseconds time(goal(50, 20'000));
    const CallTimes idle = bystander.idle(time);
    const std::uint64_t before = daemon.memory_bytes("VmRSS");
    const std::size_t threads = daemon.threads();

    constexpr void (*kWays[])(const std::string&) = {stop_with_answers_unread, stop_in_request,
                                                     stop_in_wait, stop_with_files_unread};
    std::vector<StoppedProcess> stopped;
    for (std::size_t i = 0; i < goal(20, 200); ++i) {
      stopped.emplace_back([&] { kWays[i % std::size(kWays)](daemon.directory()); });
      EXPECT_TRUE(stopped.back().has_stopped()) << "number " << i;
    }
    const CallTimes meanwhile = bystander.idle(time);
    const std::uint64_t most = daemon.memory_bytes("VmHWM");
    EXPECT_LE(most, before + kMostBytes);
    const std::size_t threads_now = daemon.threads();
    EXPECT_LE(threads_now, threads + kMostThreads);
    if (is_proving()) {
      EXPECT_LE(meanwhile.p99_us * 10, idle.p99_us * 12);
    }
    reached(
        "{} stopped processes: the daemon's memory {} KiB, then {} at most; {} threads, then {}; "
        "calls of another user take 50 % {} us, 99 % {} us; meanwhile {} us, {} us",
        stopped.size(), before / 1024, most / 1024, threads, threads_now, idle.p50_us, idle.p99_us,
        meanwhile.p50_us, meanwhile.p99_us);
  }
  EXPECT_EQ(daemon.unsettled(), "");
}

}  // namespace
}  // namespace memlease::testing
