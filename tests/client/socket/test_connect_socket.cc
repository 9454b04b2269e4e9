#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "client/socket/connect_socket.h"
#include "gtest/gtest.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/unix_socket.h"
#include "wire/error.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;

constexpr uid_t kImpostor = 54321;

// A directory with a listening socket "s" in it.
class Listener {
 public:
  explicit Listener(int type, uid_t uid = ::geteuid(), int backlog = 8) {
    EXPECT_EQ(::chmod(directory().c_str(), 0777), 0);  // the directory is not the subject here
    const uid_t self = ::geteuid();
    EXPECT_EQ(::seteuid(uid), 0);
    socket_ = testing::bind_unix(directory() + "/s", type);
    EXPECT_EQ(::listen(socket_.get(), backlog), 0);  // SO_PEERCRED tells who did this
    EXPECT_EQ(::seteuid(self), 0);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  absl::StatusOr<ConnectedSocket> connect(int type) const {
    return connect_socket(directory(), "s", type);
  }
  const std::string& directory() const { return directory_.path(); }

 private:
  testing::TemporaryFolder directory_;
  wire::UniqueFd socket_;
};

TEST(ConnectSocket, SaysWhoListens) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    const Listener listener(type);
    const auto socket = listener.connect(type);
    ASSERT_TRUE(socket.ok()) << socket.status();
    EXPECT_EQ(socket->daemon_pid, ::getpid());
    EXPECT_EQ(socket->daemon_uid, ::geteuid());
    EXPECT_NE(::fcntl(socket->fd.get(), F_GETFL) & O_NONBLOCK, 0);
    EXPECT_NE(::fcntl(socket->fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  }
}

TEST(ConnectSocket, AQueueThatIsFullIsNotWaitedFor) {
  const Listener listener(SOCK_STREAM, ::geteuid(), 0);
  std::vector<ConnectedSocket> sockets;
  absl::Status refusal;
  while (refusal.ok() && sockets.size() < 100) {
    auto socket = listener.connect(SOCK_STREAM);
    refusal = socket.status();
    if (socket.ok()) sockets.push_back(*std::move(socket));
  }
  EXPECT_EQ(wire::code_of(refusal), ErrorCode::kDaemonUnavailable);
  EXPECT_NE(wire::message_of(refusal).find("queue"), std::string::npos);
}

TEST(ConnectSocket, AStrangerWhoListensIsAFalseDaemon) {
  ASSERT_EQ(::geteuid(), 0U) << "run the tests as root";
  const Listener listener(SOCK_STREAM, kImpostor);
  const auto socket = listener.connect(SOCK_STREAM);
  ASSERT_FALSE(socket.ok());
  EXPECT_EQ(wire::code_of(socket.status()), ErrorCode::kDenied);
  EXPECT_NE(wire::message_of(socket.status()).find(std::to_string(kImpostor)), std::string::npos);
}

TEST(ConnectSocket, TheDirectorysOwnerIsNoStranger) {
  ASSERT_EQ(::geteuid(), 0U) << "run the tests as root";
  const Listener listener(SOCK_STREAM, kImpostor);
  ASSERT_EQ(::chown(listener.directory().c_str(), kImpostor, kImpostor), 0);
  const auto socket = listener.connect(SOCK_STREAM);
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_EQ(socket->daemon_uid, kImpostor);
}

}  // namespace
}  // namespace memlease::internal
