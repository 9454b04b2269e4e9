#include "client/rpc/control_stub.h"
#include "gtest/gtest.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

// A call may meet the end of the daemon before the session looks at its socket.
TEST(ControlStub, ADaemonThatCannotBeReachedAnyMoreIsLost) {
  ControlStub control("/tmp/memlease-none", "credential");
  const auto opened = control.open("a", kNoInterrupts);
  EXPECT_EQ(wire::code_of(opened.status()), wire::ErrorCode::kDaemonLost) << opened.status();
  EXPECT_NE(wire::message_of(opened.status()).find("/tmp/memlease-none"), std::string::npos);
  EXPECT_FALSE(wire::hint_of(opened.status()).empty());
}

}  // namespace
}  // namespace memlease::internal
