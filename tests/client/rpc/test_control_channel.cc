#include <atomic>
#include <cerrno>
#include <chrono>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/rpc/control_channel.h"
#include "client/rpc/control_stub.h"
#include "gtest/gtest.h"
#include "tests/support/forked.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/unix_socket.h"
#include "wire/error.h"
#include "wire/grpc/grpc_needs.h"

namespace memlease::internal {
namespace {

// Far above any delay of a loaded machine.
constexpr std::chrono::seconds kLost{20};

absl::Status run_nothing(const ControlSocket& socket, InterruptCheck interrupt,
                         std::chrono::milliseconds longest = kLost) {
  return run_control_call(socket, longest, interrupt, [](const auto&) { return grpc::Status::OK; });
}

// A thread of the library's that makes one more call as a fork is about to come.
struct LastCall {
  const ControlSocket& socket;
  std::atomic<bool> asked = false;
  std::atomic<bool> made = false;
  std::atomic<bool> late = false;
  std::thread thread{[this] {
    asked.wait(false);
    made = run_nothing(socket, kNoInterrupts).ok();
  }};

  void pause() {
    asked = true;
    asked.notify_all();
    const auto end = std::chrono::steady_clock::now() + kLost;
    while (!made && !late) {
      late = std::chrono::steady_clock::now() > end;
      std::this_thread::yield();
    }
  }
};
LastCall* last_call = nullptr;

TEST(ControlChannel, AForkWaitsForTheLibrarysThreadsBeforeItHoldsUpTheirCalls) {
  const testing::TemporaryFolder directory;
  const wire::UniqueFd daemon = testing::bind_unix(directory.path() + "/control.sock", SOCK_STREAM);
  ASSERT_EQ(::listen(daemon.get(), 5), 0);
  auto socket = ControlSocket::find(directory.path());
  ASSERT_TRUE(socket.ok()) << socket.status();
  // The first call prepares the process: from here on a fork holds calls up.
  ASSERT_TRUE(run_nothing(**socket, kNoInterrupts).ok());
  const auto last = std::make_unique<LastCall>(**socket);
  last_call = last.get();
  pause_over_fork(
      [] {
        if (last_call != nullptr) last_call->pause();
      },
      [] {});
  EXPECT_EQ(testing::in_forked_child([] { return std::string("forked"); }), "forked");
  last_call = nullptr;
  last->thread.join();
  EXPECT_TRUE(last->made);
  EXPECT_FALSE(last->late) << "the call waited for the fork, and the fork for the call";
}

// gRPC's server would end the connection.
TEST(ControlChannel, HasNoMoreCallsAtOnceThanTheDaemonAllows) {
  const testing::TemporaryFolder directory;
  const wire::UniqueFd daemon = testing::bind_unix(directory.path() + "/control.sock", SOCK_STREAM);
  ASSERT_EQ(::listen(daemon.get(), 5), 0);
  auto found = ControlSocket::find(directory.path());
  ASSERT_TRUE(found.ok()) << found.status();
  const ControlSocket& socket = **found;
  ControlStub control(*std::move(found), "credential");
  std::latch all_begun(wire::kCallsOfAClient);
  std::latch end(1);
  std::vector<std::thread> calls;
  for (int i = 0; i < wire::kCallsOfAClient; ++i) {
    calls.emplace_back([&] {
      const auto wait = [&](const auto&) {
        all_begun.count_down();
        end.wait();
        return grpc::Status::OK;
      };
      EXPECT_TRUE(run_control_call(socket, kLost, kNoInterrupts, wait).ok());
    });
  }
  all_begun.wait();
  const absl::Status late = run_nothing(socket, kNoInterrupts, std::chrono::milliseconds::zero());
  EXPECT_EQ(wire::code_of(late), wire::ErrorCode::kTimeout) << late;
  EXPECT_NE(wire::message_of(late).find("this process makes"), std::string::npos) << late;
  EXPECT_FALSE(wire::hint_of(late).empty());
  const auto listed = control.list("*", [] { return interrupted(std::make_exception_ptr(1)); });
  EXPECT_NE(interrupt_of(listed.status()), nullptr) << listed.status();
  EXPECT_FALSE(control.silent()) << "the daemon has not been asked";
  std::atomic<bool> asked = false;
  calls.emplace_back([&] {
    const auto note = [&] {
      asked = true;
      asked.notify_all();
      return absl::OkStatus();
    };
    EXPECT_TRUE(run_nothing(socket, note).ok()) << "it begins when others have ended";
  });
  asked.wait(false);
  end.count_down();
  for (std::thread& call : calls) call.join();
  EXPECT_TRUE(run_nothing(socket, kNoInterrupts).ok());
}

// By a daemon that has begun nothing, as it had no thread for that.
TEST(ControlChannel, IsAskedAgainWhereItsCallsAreTurnedAway) {
  const testing::TemporaryFolder directory;
  const wire::UniqueFd daemon = testing::bind_unix(directory.path() + "/control.sock", SOCK_STREAM);
  ASSERT_EQ(::listen(daemon.get(), 5), 0);
  const auto socket = ControlSocket::find(directory.path());
  ASSERT_TRUE(socket.ok()) << socket.status();
  const grpc::Status turned_away(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                 "Server Threadpool Exhausted");
  int calls = 0;
  const auto in_the_end = [&](const auto&) { return ++calls < 4 ? turned_away : grpc::Status::OK; };
  EXPECT_TRUE(run_control_call(**socket, kLost, kNoInterrupts, in_the_end).ok());
  EXPECT_EQ(calls, 4);
  const auto never = [&](const auto&) { return turned_away; };
  const auto late = run_control_call(**socket, std::chrono::milliseconds(20), kNoInterrupts, never);
  EXPECT_EQ(wire::code_of(late), wire::ErrorCode::kTimeout) << late;
  EXPECT_NE(wire::message_of(late).find("calls of this user"), std::string::npos) << late;
  const auto stopped = run_control_call(
      **socket, kLost, [] { return interrupted(std::make_exception_ptr(1)); }, never);
  EXPECT_NE(interrupt_of(stopped), nullptr) << stopped;
  calls = 0;
  const auto too_long = [&](const auto&) {
    ++calls;
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "message larger than max");
  };
  const auto refused = run_control_call(**socket, kLost, kNoInterrupts, too_long);
  EXPECT_EQ(wire::code_of(refused), wire::ErrorCode::kQuotaExceeded) << refused;
  EXPECT_EQ(calls, 1);
}

// Of a daemon whose queue of connections is full.
class BusyControlChannel : public ::testing::Test {
 protected:
  BusyControlChannel() {
    EXPECT_EQ(::listen(daemon.get(), 0), 0);
    while (auto one = testing::connect_unix(path, SOCK_STREAM | SOCK_NONBLOCK)) {
      waiting.push_back(std::move(one));
    }
    EXPECT_EQ(errno, EAGAIN);
  }

  const testing::TemporaryFolder directory;
  const std::string path = directory.path() + "/control.sock";
  const wire::UniqueFd daemon = testing::bind_unix(path, SOCK_STREAM);
  std::vector<wire::UniqueFd> waiting;
  const absl::StatusOr<std::unique_ptr<const ControlSocket>> socket =
      ControlSocket::find(directory.path());
};

TEST_F(BusyControlChannel, IsAskedAgainUntilItHasRoom) {
  int asked = 0;
  const auto make_room = [&] {
    if (++asked == 3) ::close(::accept(daemon.get(), nullptr, nullptr));
    return absl::OkStatus();
  };
  const absl::Status called = run_nothing(**socket, make_room);
  EXPECT_TRUE(called.ok()) << called;
  EXPECT_EQ(asked, 3);
}

TEST_F(BusyControlChannel, IsGivenUpInTimeOrByAnInterrupt) {
  const absl::Status late = run_nothing(**socket, kNoInterrupts, std::chrono::milliseconds::zero());
  EXPECT_EQ(wire::code_of(late), wire::ErrorCode::kTimeout) << late;
  EXPECT_NE(wire::message_of(late).find("stayed busy (1 tries"), std::string::npos) << late;
  const auto status = run_nothing(**socket, [] { return interrupted(std::make_exception_ptr(1)); });
  EXPECT_NE(interrupt_of(status), nullptr);
}

}  // namespace
}  // namespace memlease::internal
