// Connecting from several threads, and from a forked child, while a daemon is slow to answer.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <latch>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "client/api/connect_session.h"
#include "gtest/gtest.h"
#include "tests/support/forked.h"
#include "tests/support/gates.h"
#include "tests/support/readable.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/unix_socket.h"
#include "wire/frame_socket.h"

namespace memlease::testing {
namespace {

// Makes a session of each client that greets it. Stops at the gate "hello".
class Greeter {
 public:
  Greeter()
      : listener_(bind_unix(folder_.path() + "/attach.sock", SOCK_SEQPACKET)),
        control_(bind_unix(folder_.path() + "/control.sock", SOCK_STREAM)) {
    if (!listener_ || !control_ || ::listen(listener_.get(), 16) != 0) std::abort();
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~Greeter() {
    gates.open_all();
    ::shutdown(listener_.get(), SHUT_RDWR);
    acceptor_.join();
    for (std::thread& greeting : greetings_) greeting.join();
  }
  Greeter(const Greeter&) = delete;
  Greeter& operator=(const Greeter&) = delete;

  const std::string& directory() const { return folder_.path(); }
  int greeted() const { return greeted_.load(); }

  Gates gates;
  std::atomic<bool> refuses{false};  // the next one that has passed

 private:
  void accept_all() {
    for (;;) {
      wire::UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!client) return;  // shut down
      greetings_.emplace_back([this, fd = std::move(client)]() mutable { greet(std::move(fd)); });
    }
  }
  void greet(wire::UniqueFd socket) {
    const int client = socket.get();
    if (!await_frame(client)) return;
    ++greeted_;
    gates.pass("hello");
    if (refuses.exchange(false)) return;
    wire::send_frame(client, wire::encode_frame({0, wire::ChallengeFrame{}}));
    if (!await_frame(client)) return;
    wire::send_frame(client, wire::encode_frame({0, wire::WelcomeFrame{}}));
    await_frame(client);  // its end
  }
  static bool await_frame(int client) {
    readable(client, -1);
    return wire::receive_frame(client, wire::Ancillary::kFiles).outcome ==
           wire::Received::Outcome::kFrame;
  }

  const TemporaryFolder folder_;
  const wire::UniqueFd listener_;
  const wire::UniqueFd control_;  // that nobody calls
  std::atomic<int> greeted_{0};
  std::vector<std::thread> greetings_;  // the acceptor's
  std::thread acceptor_;
};

using Connected = absl::StatusOr<std::shared_ptr<internal::ArrayTable>>;

Connected connect(const Greeter& daemon) {
  ConnectOptions options;
  options.directory = daemon.directory();
  options.start = false;
  return internal::connect_session(options);
}

std::future<Connected> connect_in_thread(const Greeter& daemon) {
  return std::async(std::launch::async, [&] { return connect(daemon); });
}

bool pending(const std::future<Connected>& connecting) {
  return connecting.wait_for(std::chrono::seconds(0)) == std::future_status::timeout;
}

// Of this process.
std::ptrdiff_t sockets() {
  return std::ranges::count_if(
      std::filesystem::directory_iterator("/proc/self/fd"), [](const auto& entry) {
        std::error_code closed;  // the one that lists the folder, by now
        return std::filesystem::read_symlink(entry, closed).string().starts_with("socket:");
      });
}

class Connect : public ::testing::Test {
 protected:
  // A thread that connects to slow_ waits for its answer.
  void SetUp() override {
    slow_.gates.shut("hello");
    first_ = connect_in_thread(slow_);
    ASSERT_TRUE(slow_.gates.reached("hello"));
  }
  void expect_the_first_succeeds() {
    slow_.gates.open_all();
    const Connected first = first_.get();
    EXPECT_TRUE(first.ok()) << first.status();
  }

  Greeter slow_;
  std::future<Connected> first_;
};

TEST_F(Connect, WaitsForNoOtherDaemon) {
  const Greeter other;
  const Connected session = connect(other);
  EXPECT_TRUE(pending(first_));
  EXPECT_TRUE(session.ok()) << session.status();
  expect_the_first_succeeds();
}

TEST_F(Connect, ToOneDaemonMakesOneSessionForAllThreads) {
  constexpr int kThreads = 8;
  std::latch started(kThreads);
  std::vector<std::future<Connected>> others;
  for (int i = 0; i < kThreads; ++i) {
    others.push_back(std::async(std::launch::async, [&] {
      started.count_down();
      return connect(slow_);
    }));
  }
  started.wait();
  slow_.gates.open_all();
  std::set<std::shared_ptr<internal::ArrayTable>> sessions{first_.get().value()};
  for (auto& other : others) sessions.insert(other.get().value());
  EXPECT_EQ(sessions.size(), 1U);
  EXPECT_EQ(slow_.greeted(), 1);
}

TEST_F(Connect, AttachesItselfAfterTheOtherThreadHasFailed) {
  slow_.refuses = true;
  auto second = connect_in_thread(slow_);
  slow_.gates.open_all();
  EXPECT_FALSE(first_.get().ok());
  EXPECT_TRUE(second.get().ok());
}

// The thread that attaches is the parent's.
TEST_F(Connect, DoesNotHoldUpAForkNorItsChild) {
  const std::string said = in_forked_child([this]() -> std::string {
    const Connected session = connect(slow_);
    return session.ok() ? "a session of the child's own" : session.status().ToString();
  });
  EXPECT_TRUE(pending(first_));
  EXPECT_EQ(said, "a session of the child's own");
  EXPECT_EQ(slow_.greeted(), 2);
  expect_the_first_succeeds();
}

// The connection is the parent's alone, already during the handshake.
TEST_F(Connect, LeavesNoSocketToAChildThatIsForkedMeanwhile) {
  const std::string inherited = in_forked_child([] { return std::to_string(sockets()); });
  EXPECT_EQ(inherited, std::to_string(sockets() - 1));
  expect_the_first_succeeds();
}

}  // namespace
}  // namespace memlease::testing
