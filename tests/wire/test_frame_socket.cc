#include <sys/socket.h>
#include <unistd.h>

#include <span>

#include "gtest/gtest.h"
#include "tests/support/open_files.h"
#include "wire/frame_socket.h"

namespace memlease::wire {
namespace {

using Outcome = Received::Outcome;

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

  UniqueFd here_, there_;
};

TEST_F(FrameSocket, TakesDescriptorsWhereTheyAreExpected) {
  const int one = STDERR_FILENO;
  const Received received = after_sending({&one, 1}, Ancillary::kFiles);
  EXPECT_EQ(received.outcome, Outcome::kFrame);
  EXPECT_EQ(received.fds.size(), 1U);
  EXPECT_FALSE(received.fds_lost);
}

TEST_F(FrameSocket, RefusesDescriptorsThatMustNotComeAndClosesThem) {
  const int some[] = {STDERR_FILENO, STDERR_FILENO};
  const auto before = testing::open_files();
  for (const Ancillary expected : {Ancillary::kSender, Ancillary::kSenderProcess}) {
    for (const std::size_t count : {1U, 2U}) {
      EXPECT_EQ(after_sending({some, count}, expected).outcome, Outcome::kMisfit) << count;
      EXPECT_EQ(testing::open_files(), before);
    }
    EXPECT_EQ(after_sending({}, expected).outcome, Outcome::kFrame);
  }
}

}  // namespace
}  // namespace memlease::wire
