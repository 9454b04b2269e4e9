#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "client/rpc/control_channel.h"
#include "gtest/gtest.h"
#include "tests/support/forked.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/unix_socket.h"

namespace memlease::internal {
namespace {

// Far above any delay of a loaded machine.
constexpr std::chrono::seconds kLost{20};

// A thread of the library's that makes one more call as a fork is about to come.
struct LastCall {
  const ControlSocket& socket;
  std::atomic<bool> asked = false;
  std::atomic<bool> made = false;
  std::atomic<bool> late = false;
  std::thread thread{[this] {
    asked.wait(false);
    made = run_control_call(socket, [](const auto&) { return grpc::Status::OK; }).ok();
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
  ASSERT_TRUE(run_control_call(**socket, [](const auto&) { return grpc::Status::OK; }).ok());
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

}  // namespace
}  // namespace memlease::internal
