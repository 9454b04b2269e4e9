#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
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
  void end() { socket_.reset(); }

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
  EXPECT_EQ(wire::code_of(refusal), ErrorCode::kBusy);
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

// ---- A socket's file that is kept.

pid_t listens_at(const SocketFile& file) {
  const auto socket = connect_socket(file, SOCK_STREAM);
  EXPECT_TRUE(socket.ok()) << socket.status();
  return socket.ok() ? socket->daemon_pid : -1;
}

TEST(SocketFile, LeadsToWhoListensThoughItsNameIsGone) {
  Listener listener(SOCK_STREAM);
  const auto file = find_socket(listener.directory(), "s");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_NE(::fcntl(file->fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  std::filesystem::remove_all(listener.directory());
  EXPECT_FALSE(listener.connect(SOCK_STREAM).ok());
  EXPECT_EQ(listens_at(*file), ::getpid());
  listener.end();
  const auto ended = connect_socket(*file, SOCK_STREAM);
  EXPECT_EQ(wire::code_of(ended.status()), ErrorCode::kDaemonUnavailable);
  EXPECT_NE(wire::message_of(ended.status()).find(file->path), std::string::npos);
}

TEST(SocketFile, DoesNotLeadToWhoHasTakenTheName) {
  const Listener listener(SOCK_STREAM);
  const auto file = find_socket(listener.directory(), "s");
  ASSERT_TRUE(file.ok()) << file.status();
  std::filesystem::remove(file->path);
  const wire::UniqueFd other = testing::bind_unix(file->path, SOCK_STREAM | SOCK_NONBLOCK);
  ASSERT_EQ(::listen(other.get(), 8), 0);
  EXPECT_EQ(listens_at(*file), ::getpid());
  EXPECT_EQ(::accept(other.get(), nullptr, nullptr), -1) << "it was asked";
}

TEST(SocketFile, RemembersTheOwnerOfItsDirectory) {
  ASSERT_EQ(::geteuid(), 0U) << "run the tests as root";
  const Listener listener(SOCK_STREAM, kImpostor);
  const auto of_root = find_socket(listener.directory(), "s");
  ASSERT_TRUE(of_root.ok()) << of_root.status();
  ASSERT_EQ(::chown(listener.directory().c_str(), kImpostor, kImpostor), 0);
  const auto of_owner = find_socket(listener.directory(), "s");
  ASSERT_TRUE(of_owner.ok()) << of_owner.status();
  std::filesystem::remove_all(listener.directory());
  EXPECT_TRUE(connect_socket(*of_owner, SOCK_STREAM).ok());
  const auto stranger = connect_socket(*of_root, SOCK_STREAM);
  EXPECT_EQ(wire::code_of(stranger.status()), ErrorCode::kDenied) << stranger.status();
}

TEST(SocketFile, WithoutItsDescriptorTheNameCounts) {
  const Listener listener(SOCK_STREAM);
  auto file = find_socket(listener.directory(), "s");
  ASSERT_TRUE(file.ok()) << file.status();
  file->fd.reset();  // as in a forked child
  EXPECT_EQ(listens_at(*file), ::getpid());
  std::filesystem::remove_all(listener.directory());
  EXPECT_FALSE(connect_socket(*file, SOCK_STREAM).ok());
}

// Even another socket's.
TEST(SocketFile, AFileThatHasComeInThePlaceOfItsDescriptorIsLeftAlone) {
  const Listener listener(SOCK_STREAM);
  const testing::TemporaryFolder elsewhere;
  const wire::UniqueFd other = testing::bind_unix(elsewhere.path() + "/s", SOCK_STREAM);
  auto file = find_socket(listener.directory(), "s");
  ASSERT_TRUE(file.ok()) << file.status();
  const int number = file->fd.get();
  ASSERT_EQ(::close(number), 0);
  EXPECT_EQ(listens_at(*file), ::getpid());
  const wire::UniqueFd path(::open((elsewhere.path() + "/s").c_str(), O_PATH | O_CLOEXEC));
  ASSERT_EQ(::dup2(path.get(), number), number);
  EXPECT_EQ(listens_at(*file), ::getpid()) << "where nobody listens";
  file->fd.reset();
  EXPECT_GE(::fcntl(number, F_GETFD), 0) << "it was closed";
  if (path.get() != number) ::close(number);
}

TEST(SocketFile, WhatIsNotThereOrHasNoDescriptorIsSaid) {
  const Listener listener(SOCK_STREAM);
  const auto missing = find_socket(listener.directory(), "t");
  EXPECT_EQ(wire::code_of(missing.status()), ErrorCode::kDaemonUnavailable) << missing.status();
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto full = find_socket(listener.directory(), "s");
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(wire::code_of(full.status()), ErrorCode::kOutOfMemory) << full.status();
  EXPECT_NE(wire::hint_of(full.status()).find("which is 0 (ulimit -n)"), std::string::npos);
}

}  // namespace
}  // namespace memlease::internal
