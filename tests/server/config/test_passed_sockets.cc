// Sockets that a service manager passes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "server/config/directory.h"
#include "tests/server/config/directory_world.h"
#include "tests/support/readable.h"
#include "tests/support/unix_socket.h"
#include "wire/error.h"
#include "wire/place.h"

namespace memlease::server {
namespace {

using ::testing::HasSubstr;
using wire::ErrorCode;

class PassedSocketsTest : public DirectoryTest {
 protected:
  PassedSocketsTest() { ::mkdir(path_.c_str(), 0755); }

  // As a unit of sockets makes it.
  static PassedSocket passed(const std::string& path, int type, bool listens = true) {
    wire::UniqueFd socket = testing::bind_unix(path, type);
    EXPECT_TRUE(socket) << path;
    EXPECT_TRUE(!listens || ::listen(socket.get(), 8) == 0);
    return {std::move(socket), "memleased.socket"};
  }
  std::vector<PassedSocket> both() const {
    std::vector<PassedSocket> sockets;
    sockets.push_back(passed(at(wire::kControlSocket), SOCK_STREAM));
    sockets.push_back(passed(at(wire::kAttachSocket), SOCK_SEQPACKET));
    return sockets;
  }
  void expect_unusable(std::vector<PassedSocket> sockets, const std::string& what) const {
    auto directory = Directory::lock(path_);
    ASSERT_TRUE(directory.ok()) << directory.status();
    const absl::Status used = directory->use(sockets);
    EXPECT_EQ(wire::code_of(used), ErrorCode::kInvalidArgument) << used;
    EXPECT_THAT(wire::message_of(used), HasSubstr(what));
    EXPECT_FALSE(wire::hint_of(used).empty());
    for (const char* name : {wire::kAttachSocket, wire::kControlSocket}) ::unlink(at(name).c_str());
  }
};

TEST_F(PassedSocketsTest, AreUsedAsTheyAreAndStayAtTheEnd) {
  {
    auto directory = Directory::lock(path_);
    ASSERT_TRUE(directory.ok()) << directory.status();
    std::vector<PassedSocket> sockets = both();
    const int control = sockets[0].fd.get();
    ASSERT_EQ(::chmod(at(wire::kControlSocket).c_str(), 0660), 0);
    ASSERT_TRUE(directory->use(sockets).ok());
    const auto socket = directory->listen(wire::kControlSocket, SOCK_STREAM, 0600);
    ASSERT_TRUE(socket.ok()) << socket.status();
    EXPECT_EQ(socket->get(), control);
    EXPECT_NE(::fcntl(control, F_GETFL) & O_NONBLOCK, 0);
    EXPECT_EQ(mode(at(wire::kControlSocket)), 0660U) << "its maker says who may connect";
    EXPECT_TRUE(directory->lost().empty());
    directory->remove(wire::kAttachSocket);
  }
  EXPECT_TRUE(exists(wire::kControlSocket));
  EXPECT_TRUE(exists(wire::kAttachSocket)) << "its name is its maker's to take away";
  EXPECT_TRUE(exists(wire::kLockFile))
      << "the next one has nothing to make, and no end to wait for";
}

// Who creates a file there in vain, and is kept from a processor, holds up who creates or removes.
TEST_F(PassedSocketsTest, NothingIsCreatedOrRemovedByADaemonThatFindsAllThere) {
  std::vector<PassedSocket> sockets = both();
  const auto run_once = [&](std::vector<PassedSocket> passed_on) {
    auto directory = Directory::lock(path_);
    ASSERT_TRUE(directory.ok()) << directory.status();
    EXPECT_TRUE(directory->use(passed_on).ok());
    EXPECT_EQ(wire::code_of(Directory::lock(path_).status()), ErrorCode::kBusy);
  };
  const auto copies = [&] {
    std::vector<PassedSocket> all;
    for (const PassedSocket& socket : sockets) {
      all.push_back({wire::UniqueFd(::fcntl(socket.fd.get(), F_DUPFD_CLOEXEC, 0)), socket.name});
    }
    return all;
  };
  run_once(copies());
  const wire::UniqueFd changes(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  ASSERT_GE(::inotify_add_watch(changes.get(), path_.c_str(), IN_CREATE | IN_DELETE | IN_MOVE), 0);
  run_once(copies());
  std::array<char, 4096> news;
  EXPECT_EQ(::read(changes.get(), news.data(), news.size()), -1) << "nothing has come or gone";
}

// A daemon that somebody starts by hand, where a unit of sockets waits for its first client.
TEST_F(PassedSocketsTest, OfAUnitThatWaitsAreLeftAlone) {
  const std::vector<PassedSocket> waiting = both();
  {
    auto directory = Directory::lock(path_);
    ASSERT_TRUE(directory.ok()) << directory.status();
    for (const auto& [name, type] : {std::pair(wire::kAttachSocket, SOCK_SEQPACKET),
                                     std::pair(wire::kControlSocket, SOCK_STREAM)}) {
      const auto socket = directory->listen(name, type, 0600);
      EXPECT_EQ(wire::code_of(socket.status()), ErrorCode::kBusy) << socket.status();
      EXPECT_THAT(wire::message_of(socket.status()), HasSubstr("a process has this socket open"));
      EXPECT_THAT(wire::hint_of(socket.status()), HasSubstr("systemctl start memleased.service"));
    }
  }
  EXPECT_TRUE(exists(wire::kAttachSocket));
  EXPECT_TRUE(testing::connect_unix(at(wire::kControlSocket), SOCK_STREAM)) << "it listens still";
  EXPECT_FALSE(testing::readable(waiting[1].fd.get(), 0)) << "the unit is not woken";
}

TEST_F(PassedSocketsTest, OfAUnitThatHasEndedAreReplaced) {
  both();
  ASSERT_TRUE(exists(wire::kAttachSocket));
  auto directory = Directory::lock(path_);
  ASSERT_TRUE(directory.ok()) << directory.status();
  const auto socket = directory->listen(wire::kAttachSocket, SOCK_SEQPACKET, 0600);
  EXPECT_TRUE(socket.ok()) << socket.status();
}

TEST_F(PassedSocketsTest, OfTheWrongKindAreRefused) {
  std::vector<PassedSocket> sockets;
  sockets.push_back(passed(at(wire::kAttachSocket), SOCK_STREAM));
  expect_unusable(std::move(sockets), "not of type SOCK_SEQPACKET");

  sockets.clear();
  sockets.push_back(passed(at(wire::kControlSocket), SOCK_STREAM, false));
  expect_unusable(std::move(sockets), "does not listen");

  sockets.clear();
  sockets.push_back({wire::UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC)), "null"});
  expect_unusable(std::move(sockets), "'null' (descriptor ");

  sockets.clear();
  sockets.push_back({wire::UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), "tcp"});
  expect_unusable(std::move(sockets), "is not a UNIX socket");

  sockets.clear();
  sockets.push_back({wire::UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)), "unbound"});
  expect_unusable(std::move(sockets), "has no path in the file system");
}

TEST_F(PassedSocketsTest, InTheWrongPlaceAreRefused) {
  std::vector<PassedSocket> sockets;
  sockets.push_back(passed(at("other.sock"), SOCK_STREAM));
  expect_unusable(std::move(sockets), "other.sock', which this daemon does not use");

  sockets.clear();
  sockets.push_back(passed(parent_ + "/" + wire::kControlSocket, SOCK_STREAM));
  expect_unusable(std::move(sockets), "but the daemon's directory is '" + path_ + "'");
}

TEST_F(PassedSocketsTest, AreBothThereOrNone) {
  std::vector<PassedSocket> sockets;
  sockets.push_back(passed(at(wire::kAttachSocket), SOCK_SEQPACKET));
  expect_unusable(std::move(sockets), "only '" + at(wire::kAttachSocket) + "' was passed");

  sockets = both();
  sockets.push_back({wire::UniqueFd(::fcntl(sockets[0].fd.get(), F_DUPFD_CLOEXEC, 0)), "again"});
  expect_unusable(std::move(sockets), "two sockets were passed");
}

TEST_F(PassedSocketsTest, WhoseFileIsGoneAreRefused) {
  std::vector<PassedSocket> sockets = both();
  ASSERT_EQ(::unlink(at(wire::kAttachSocket).c_str()), 0);
  expect_unusable(std::move(sockets), "that file is gone");
}

}  // namespace
}  // namespace memlease::server
