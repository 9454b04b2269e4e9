#include <sys/socket.h>
#include <unistd.h>

#include <span>

#include "gtest/gtest.h"
#include "tests/support/open_files.h"
#include "wire/frame_socket.h"

namespace memlease::wire {
namespace {

using Outcome = Received::Outcome;

constexpr int kSoPeerPidfd = 77;  // Debian 12's headers do not know it

class FrameSocket : public ::testing::Test {
 protected:
  void SetUp() override {
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    here_.reset(sockets[0]);
    there_.reset(sockets[1]);
  }

  Received after_sending(std::span<const int> fds, Ancillary expected) {
    EXPECT_EQ(send_frame(there_.get(), encode_frame({1, ByeFrame{}}, max_protocol()), fds), 0);
    return receive_frame(here_.get(), expected);
  }

  void ask_for_sender(int on) const {
    EXPECT_EQ(::setsockopt(here_.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
  }
  // Linux 6.5.
  bool has_pidfds() const {
    int fd = -1;
    socklen_t size = sizeof fd;
    const bool has = ::getsockopt(here_.get(), SOL_SOCKET, kSoPeerPidfd, &fd, &size) == 0;
    return has && UniqueFd(fd);
  }

  UniqueFd here_, there_;
};

TEST_F(FrameSocket, TakesDescriptorsWhereTheyAreExpected) {
  const int one = STDERR_FILENO;
  const Received received = after_sending({&one, 1}, Ancillary::kFiles);
  EXPECT_EQ(received.outcome, Outcome::kFrame);
  EXPECT_EQ(received.fds.size(), 1U);
  EXPECT_FALSE(received.fds_lost);
}

TEST_F(FrameSocket, LeavesDescriptorsThatMustNotCome) {
  const int some[] = {STDERR_FILENO, STDERR_FILENO};
  const auto before = testing::open_files();
  for (const Ancillary expected : {Ancillary::kSender, Ancillary::kSenderProcess}) {
    ask_for_sender(1);
    EXPECT_EQ(receive_frame(here_.get(), expected).outcome, Outcome::kNothing);
    const Received received = after_sending({}, expected);
    EXPECT_EQ(received.outcome, Outcome::kFrame);
    ASSERT_TRUE(received.sender);
    EXPECT_EQ(received.sender->pid, ::getpid());
    EXPECT_EQ(received.sender_process.get() >= 0,
              expected == Ancillary::kSenderProcess && has_pidfds());
    for (const std::size_t count : {1U, 2U}) {
      EXPECT_EQ(after_sending({some, count}, expected).outcome, Outcome::kDescriptors) << count;
      EXPECT_EQ(receive_frame(here_.get(), expected).outcome, Outcome::kDescriptors) << "again";
      ask_for_sender(0);  // it takes the room of a descriptor
      EXPECT_EQ(receive_frame(here_.get(), Ancillary::kFiles).fds.size(), count);
      ask_for_sender(1);
    }
  }
  EXPECT_EQ(testing::open_files(), before);
}

}  // namespace
}  // namespace memlease::wire
