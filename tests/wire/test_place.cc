#include <unistd.h>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "wire/error.h"
#include "wire/place.h"

namespace memlease::wire {
namespace {

TEST(UserDirectory, IsInTheRuntimeDirectory) {
  EXPECT_EQ(user_directory("/run/user/7"), "/run/user/7/memlease");
}

TEST(UserDirectory, IsInTmpWithoutAnAbsoluteOne) {
  const std::string in_tmp = fmt::format("/tmp/memlease-{}", ::geteuid());
  EXPECT_EQ(user_directory(""), in_tmp);
  EXPECT_EQ(user_directory("relative"), in_tmp);
}

TEST(SocketPath, HoldsUpTo107Bytes) {
  const std::string fits(107 - 1 - std::string_view(kControlSocket).size(), 'd');
  const auto path = socket_path(fits, kControlSocket);
  ASSERT_TRUE(path.ok());
  EXPECT_EQ(path->size(), 107U);
  const auto refused = socket_path(fits + 'd', kControlSocket);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(code_of(refused.status()), ErrorCode::kInvalidArgument);
  EXPECT_NE(message_of(refused.status()).find("108 bytes"), std::string::npos);
  EXPECT_NE(hint_of(refused.status()).find(std::to_string(fits.size())), std::string::npos);
}

}  // namespace
}  // namespace memlease::wire
