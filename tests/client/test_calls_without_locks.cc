// In builds with a sanitizer: where a client calls the daemon, or runs code of the user's, it may
// hold no mutex. What waits otherwise is in tests/wire/test_held_mutexes.cc.
#include <functional>

#include "client/channel/attach_client.h"
#include "client/rpc/control_channel.h"
#include "client/rpc/control_stub.h"
#include "client/session/interrupt.h"
#include "gtest/gtest.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/unix_socket.h"
#include "wire/mutex.h"

namespace memlease::internal {
namespace {

void under_a_mutex(const std::function<void()>& call) {
  wire::Mutex mutex;
  const wire::MutexLock lock(mutex);
  call();
}

TEST(CallsWithoutLocksDeathTest, ACallToTheDaemonIsMadeWithoutALock) {
  const testing::TemporaryFolder directory;
  testing::bind_unix(directory.path() + "/control.sock", SOCK_STREAM);  // and nobody listens
  auto socket = ControlSocket::find(directory.path());
  ASSERT_TRUE(socket.ok()) << socket.status();
  ControlStub control(*std::move(socket), "credential");
  EXPECT_FALSE(control.list("*", kNoInterrupts).ok());
  EXPECT_DEATH(under_a_mutex([&] { control.list("*", kNoInterrupts).IgnoreError(); }),
               "a call to the daemon under a mutex");
}

TEST(CallsWithoutLocksDeathTest, ASessionBeginsWithoutALock) {
  const testing::TemporaryFolder empty;
  EXPECT_FALSE(AttachClient::connect(empty.path()).ok());
  EXPECT_DEATH(under_a_mutex([&] { AttachClient::connect(empty.path()).IgnoreError(); }),
               "the beginning of a session under a mutex");
}

TEST(CallsWithoutLocksDeathTest, TheUsersCheckRunsWithoutALock) {
  EXPECT_TRUE(call_check([] {}).ok());
  EXPECT_DEATH(under_a_mutex([] { call_check([] {}).IgnoreError(); }),
               "a check for interrupts of the user's under a mutex");
}

TEST(CallsWithoutLocksDeathTest, UserCodeInsideACallRunsWithoutALock) {
  EXPECT_DEATH(under_a_mutex([] { run_user_code([] { return absl::OkStatus(); }).IgnoreError(); }),
               "code of the user's in the middle of a call under a mutex");
}

}  // namespace
}  // namespace memlease::internal
