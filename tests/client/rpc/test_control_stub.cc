#include <string>
#include <utility>

#include "client/rpc/control_stub.h"
#include "gtest/gtest.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/unix_socket.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

// A call may meet the end of the daemon before the session looks at its socket.
TEST(ControlStub, ADaemonThatCannotBeReachedAnyMoreIsLost) {
  const testing::TemporaryFolder directory;
  const std::string path = directory.path() + "/control.sock";
  testing::bind_unix(path, SOCK_STREAM);  // and nobody listens
  auto socket = ControlSocket::find(directory.path());
  ASSERT_TRUE(socket.ok()) << socket.status();
  ControlStub control(*std::move(socket), "credential");
  const auto opened = control.open("a", {}, kNoInterrupts);
  EXPECT_EQ(wire::code_of(opened.status()), wire::ErrorCode::kDaemonLost) << opened.status();
  EXPECT_NE(wire::message_of(opened.status()).find(path), std::string::npos);
  EXPECT_FALSE(wire::hint_of(opened.status()).empty());
}

}  // namespace
}  // namespace memlease::internal
