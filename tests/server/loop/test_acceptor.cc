#include <sys/socket.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/loop/acceptor.h"
#include "tests/support/lingering_socket.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/unix_socket.h"
#include "wire/frame_socket.h"

namespace memlease::server {
namespace {

using ::memlease::testing::bind_unix;
using ::memlease::testing::connect_unix;
using ::memlease::testing::LingeringSocket;

class AcceptorOfType : public ::testing::TestWithParam<int> {
 protected:
  AcceptorOfType() {
    wire::UniqueFd listener = bind_unix(path_, GetParam());
    EXPECT_EQ(::listen(listener.get(), 64), 0);
    listener_ = listener.get();
    acceptor_ = *Acceptor::start(
        loop_.get(), std::move(listener),
        [this](ClientSocket connection) { accepted_.push_back(std::move(connection)); },
        [](const ClientSocket&) { ADD_FAILURE() << "descriptors are left"; });
  }

  wire::UniqueFd connect() const {
    wire::UniqueFd connection = connect_unix(path_, GetParam());
    EXPECT_TRUE(connection);
    return connection;
  }
  // As on kernels before 6.16.
  void let_descriptors_through() const {
    const int on = 1;
    ::setsockopt(listener_, SOL_SOCKET, SO_PASSRIGHTS, &on, sizeof on);
  }
  // Until so many are there.
  void accept(std::size_t count) {
    while (accepted_.size() < count) {
      loop_->post([this] { loop_->stop(); });
      loop_->run();
    }
  }

  const memlease::testing::TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/socket";
  int listener_ = -1;  // the acceptor's
  const std::unique_ptr<EventLoop> loop_ = *EventLoop::create();
  std::vector<ClientSocket> accepted_;
  std::unique_ptr<Acceptor> acceptor_;
};
INSTANTIATE_TEST_SUITE_P(Types, AcceptorOfType, ::testing::Values(SOCK_STREAM, SOCK_SEQPACKET),
                         [](const auto& type) {
                           return type.param == SOCK_STREAM ? "stream" : "packets";
                         });

// Where the kernel has SO_PASSRIGHTS (Linux 6.16).
TEST_P(AcceptorOfType, LetsNobodySendDescriptors) {
  int passes = 0;
  socklen_t size = sizeof passes;
  const wire::UniqueFd client = connect();
  const bool can_refuse =
      ::getsockopt(client.get(), SOL_SOCKET, SO_PASSRIGHTS, &passes, &size) == 0;
  const int fd = client.get();
  EXPECT_EQ(wire::send_frame(client.get(), std::vector<std::byte>(4), std::span(&fd, 1)),
            can_refuse ? EPERM : 0);
  EXPECT_EQ(wire::send_frame(client.get(), std::vector<std::byte>(4)), 0) << "others come through";
  accept(1);
  ASSERT_EQ(accepted_.size(), 1U);
  EXPECT_EQ(wire::send_frame(accepted_[0].get(), std::vector<std::byte>(4), std::span(&fd, 1)), 0)
      << "the other way they go";
}

TEST_P(AcceptorOfType, WaitsForNoSocketThatItIsSent) {
  let_descriptors_through();
  std::vector<LingeringSocket> lingering(3);
  const auto send = [&](const wire::UniqueFd& client, LingeringSocket& one) {
    one.send_along(client.get(), std::vector<std::byte>(4));
  };
  send(connect(), lingering[0]);
  const wire::UniqueFd accepted = connect();
  send(accepted, lingering[1]);
  accept(1);
  accepted_.clear();
  const wire::UniqueFd comes_late = connect();
  send(comes_late, lingering[2]);
  acceptor_.reset();
  for (const LingeringSocket& one : lingering) EXPECT_EQ(one.take_bytes(), one.sent_bytes);
}

TEST_P(AcceptorOfType, LeavesOutWhoHasGone) {
  for (int i = 0; i < 40; ++i) {
    const wire::UniqueFd gone = connect();
    if (i % 2 == 0) {
      EXPECT_EQ(::send(gone.get(), "x", 1, 0), 1);
    }
  }
  const wire::UniqueFd stays = connect();
  EXPECT_EQ(::send(stays.get(), "y", 1, 0), 1);
  const wire::UniqueFd listens = connect();
  EXPECT_EQ(::shutdown(listens.get(), SHUT_WR), 0) << "who has said all still reads the answer";
  accept(2);
  ASSERT_EQ(accepted_.size(), 2U);
  char first = 0;
  EXPECT_EQ(::recv(accepted_[0].get(), &first, 1, 0), 1);
  EXPECT_EQ(first, 'y');
  EXPECT_EQ(::send(accepted_[1].get(), "z", 1, 0), 1);
  EXPECT_EQ(::recv(listens.get(), &first, 1, 0), 1);
  EXPECT_EQ(first, 'z');
}

}  // namespace
}  // namespace memlease::server
