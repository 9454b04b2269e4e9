#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "server/loop/client_socket.h"
#include "server/loop/close_aside.h"
#include "server/loop/thread_time.h"
#include "tests/support/eventually.h"
#include "tests/support/lingering_socket.h"
#include "tests/support/open_files.h"
#include "wire/frame_socket.h"

namespace memlease::server {
namespace {

using testing::LingeringSocket;

const std::vector<std::byte> kMessage(4);

// The client's end is the test's.
class ClientSocketOfType : public ::testing::TestWithParam<int> {
 protected:
  ClientSocketOfType() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, GetParam() | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    client_.reset(ends[0]);
    socket_ = ClientSocket(wire::UniqueFd(ends[1]));
  }
  ~ClientSocketOfType() override {
    socket_ = {};
    client_.reset();
    EXPECT_TRUE(testing::closes_all_but(files_before_));
  }

  // From now on its last one lies in the daemon's socket.
  void send(LingeringSocket& lingering, std::size_t bytes = 4) const {
    lingering.send_along(client_.get(), std::span(kMessage).first(bytes));
  }
  void send_message() const { EXPECT_EQ(wire::send_frame(client_.get(), kMessage), 0); }

  const std::set<std::string> files_before_ = testing::open_files();
  wire::UniqueFd client_;
  ClientSocket socket_;
};
INSTANTIATE_TEST_SUITE_P(Types, ClientSocketOfType, ::testing::Values(SOCK_STREAM, SOCK_SEQPACKET),
                         [](const auto& type) {
                           return type.param == SOCK_STREAM ? "stream" : "packets";
                         });

char state_of_thread(pid_t thread) {
  std::ifstream file(fmt::format("/proc/self/task/{}/stat", thread));
  const std::string stat(std::istreambuf_iterator<char>(file), {});
  return stat.substr(stat.rfind(')') + 2).at(0);
}

// The control: what all of this is about.
TEST_P(ClientSocketOfType, WhoClosesTheLastOneWaitsOtherwise) {
  LingeringSocket lingering;
  send(lingering);
  std::atomic<pid_t> id = 0;
  std::atomic<bool> closed = false;
  std::thread closer([&] {
    id = static_cast<pid_t>(::syscall(SYS_gettid));
    socket_.release().reset();
    closed = true;
  });
  EXPECT_TRUE(testing::eventually([&] { return id != 0 && state_of_thread(id) == 'S'; }));
  EXPECT_FALSE(closed);
  EXPECT_EQ(lingering.take_bytes(), lingering.sent_bytes);
  closer.join();
}

TEST_P(ClientSocketOfType, HangsUpWithoutWaiting) {
  LingeringSocket lingering;
  send_message();
  send(lingering);
  socket_ = {};
  EXPECT_EQ(lingering.take_bytes(), lingering.sent_bytes) << "what its owner has sent is not lost";
}

TEST_P(ClientSocketOfType, FindsThemBehindMessagesWithoutBytes) {
  LingeringSocket lingering;
  if (GetParam() == SOCK_SEQPACKET) {
    EXPECT_EQ(wire::send_frame(client_.get(), {}), 0);
    send(lingering, 0);
  } else {
    send(lingering, 1);
  }
  socket_ = {};
  EXPECT_EQ(lingering.take_bytes(), lingering.sent_bytes);
}

TEST_P(ClientSocketOfType, ClosesManyOfManyAtOnce) {
  std::vector<LingeringSocket> lingering(20);
  std::vector<ClientSocket> sockets;
  for (LingeringSocket& one : lingering) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, GetParam() | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    client_.reset(ends[0]);
    send(one);
    sockets.emplace_back(wire::UniqueFd(ends[1]));
  }
  sockets.clear();
  for (const LingeringSocket& one : lingering) EXPECT_EQ(one.take_bytes(), one.sent_bytes);
}

TEST_P(ClientSocketOfType, ClosesAtOnceWhatHasNone) {
  const auto files_with_it = testing::open_files();
  send_message();
  send_message();
  socket_ = {};
  EXPECT_EQ(testing::open_files().size(), files_with_it.size() - 1);
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, GetParam() | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  socket_ = ClientSocket(wire::UniqueFd(ends[1]));
  ::close(ends[0]);
  socket_ = {};
  EXPECT_EQ(testing::open_files().size(), files_with_it.size() - 1);
}

TEST_P(ClientSocketOfType, LetsTheClientReadWhatItWasSentLast) {
  send_message();
  EXPECT_EQ(wire::send_frame(socket_.get(), kMessage), 0);
  socket_ = {};
  std::array<char, 16> bytes;
  EXPECT_EQ(::recv(client_.get(), bytes.data(), bytes.size(), 0), 4);
  EXPECT_EQ(::recv(client_.get(), bytes.data(), bytes.size(), 0), 0) << "the end, not a reset";
}

TEST(ClientSocketOfStream, ReceivesBytesAndNoDescriptors) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  wire::UniqueFd client(ends[0]);
  ClientSocket socket{wire::UniqueFd(ends[1])};
  std::array<char, 16> bytes;
  EXPECT_EQ(socket.receive(bytes), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(wire::send_frame(client.get(), kMessage), 0);
  EXPECT_EQ(wire::send_frame(client.get(), kMessage), 0);
  EXPECT_EQ(socket.receive(std::span(bytes).first(3)), 3);
  EXPECT_EQ(socket.receive(bytes), 5);
  const int fd = client.get();
  EXPECT_EQ(wire::send_frame(client.get(), kMessage, std::span(&fd, 1)), 0);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(socket.receive(bytes), -1);
    EXPECT_EQ(errno, EBADMSG) << "it stays";
  }
  ClientSocket other;
  other = std::move(socket);
  EXPECT_FALSE(socket);  // NOLINT(bugprone-use-after-move)
  client.reset();
  EXPECT_EQ(other.receive(bytes), -1);
}

// Looks pass over them otherwise, with the descriptors that come along.
TEST(ClientSocketOfStream, ReceivesUrgentBytesInTheirPlace) {
  for (const bool hangs_up : {false, true}) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    const wire::UniqueFd client(ends[0]);
    ClientSocket socket{wire::UniqueFd(ends[1])};
    std::array<char, 16> bytes;
    if (::send(client.get(), "x", 1, MSG_OOB) != 1) GTEST_SKIP() << "Linux 5.15";
    EXPECT_EQ(socket.receive(bytes), 1);

    LingeringSocket lingering;
    const int fd = lingering.socket.get();
    iovec part{bytes.data(), 1};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    *CMSG_FIRSTHDR(&message) = {CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
    std::memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &fd, sizeof fd);
    EXPECT_EQ(::sendmsg(client.get(), &message, MSG_OOB), 1);
    lingering.socket.reset();
    EXPECT_EQ(wire::send_frame(client.get(), kMessage), 0);
    if (!hangs_up) {
      EXPECT_EQ(socket.receive(bytes), -1);
      EXPECT_EQ(errno, EBADMSG);
    }
    socket = {};
    EXPECT_EQ(lingering.take_bytes(), lingering.sent_bytes);
  }
}

// Who has come and is not accepted is closed with the listening socket.
// Each message that is taken has the kernel go through all who wait at the sender's end.
class ManyWaitAtTheClientsEnd : public ::testing::Test {
 protected:
  static constexpr std::size_t kThreads = 4;
  static constexpr std::size_t kWaitsOfAThread = 1000;

  ManyWaitAtTheClientsEnd() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    client_.reset(ends[0]);
    socket_ = ClientSocket(wire::UniqueFd(ends[1]));
    constexpr int kBuffer = 1 << 20;
    EXPECT_EQ(::setsockopt(client_.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kBuffer, sizeof kBuffer), 0);
    while (::send(client_.get(), "x", 1, MSG_NOSIGNAL) == 1) ++pieces_;
    for (std::thread& waits : threads_) {
      waits = std::thread([fd = client_.get()] {
        std::vector<pollfd> all(kWaitsOfAThread, {fd, 0, 0});
        ::poll(all.data(), all.size(), -1);
      });
    }
    // What the other side sends has it go through them, too.
    EXPECT_TRUE(testing::eventually([this] {
      const auto before = thread_time();
      EXPECT_EQ(::send(socket_.get(), "x", 1, MSG_NOSIGNAL), 1);
      return thread_time() - before > std::chrono::microseconds(20);
    }));
  }
  ~ManyWaitAtTheClientsEnd() override {
    ::shutdown(client_.get(), SHUT_RDWR);
    for (std::thread& waits : threads_) waits.join();
  }
  // Of a call; in what time of this thread's.
  std::chrono::nanoseconds receive(std::size_t& bytes) {
    std::vector<char> buffer(pieces_);
    const auto before = thread_time();
    bytes = static_cast<std::size_t>(socket_.receive(buffer));
    return thread_time() - before;
  }

  wire::UniqueFd client_;
  ClientSocket socket_;
  std::size_t pieces_ = 0;
  std::array<std::thread, kThreads> threads_;
};

TEST_F(ManyWaitAtTheClientsEnd, OneCallTakesFewMessagesWhereThatTakesLong) {
  std::size_t left = pieces_;
  std::chrono::nanoseconds longest{0};
  std::chrono::nanoseconds all{0};
  while (left > 0) {
    std::size_t bytes = 0;
    const auto taken = receive(bytes);
    ASSERT_GT(bytes, 0U);
    ASSERT_LE(bytes, left);
    left -= bytes;
    all += taken;
    longest = std::max(longest, taken);
  }
  EXPECT_GT(all, 5 * longest) << pieces_ << " messages";
}

TEST(ClientSocketOfAStream, OfWhichAMessageTookTooLongIsReadNoMore) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  const wire::UniqueFd client(ends[0]);
  ClientSocket socket{wire::UniqueFd(ends[1])};
  socket.allow_for_a_message(std::chrono::nanoseconds(0));
  for (const std::string_view text : {"one", "two"}) {
    ASSERT_EQ(::send(client.get(), text.data(), text.size(), MSG_NOSIGNAL), 3);
  }
  std::array<char, 16> bytes;
  EXPECT_EQ(socket.receive(bytes), 3) << "a message was taken before the clock was looked at";
  EXPECT_EQ(std::string_view(bytes.data(), 3), "one");
  ClientSocket moved = std::move(socket);
  EXPECT_EQ(moved.receive(bytes), -1);
  EXPECT_EQ(errno, ETIME);
  moved = {};
  EXPECT_TRUE(testing::eventually(
      [&] { return ::send(client.get(), "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE; }));
}

TEST_F(ManyWaitAtTheClientsEnd, HangingUpDoesNotTakeThemAll) {
  const auto before = thread_time();
  socket_ = {};
  const auto hanging_up = thread_time() - before;
  EXPECT_LT(hanging_up, std::chrono::milliseconds(100)) << pieces_;
}

TEST(CloseAside, ClosesAListenerWithWhatWaits) {
  const auto files_before = testing::open_files();
  {
    LingeringSocket lingering;
    wire::UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const sockaddr_un any{AF_UNIX, ""};
    sockaddr_un address{};
    socklen_t size = sizeof address;
    ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(sa_family_t)),
              0);
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    const wire::UniqueFd client(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    lingering.send_along(client.get(), kMessage);
    close_aside(std::move(listener));
    close_aside({});
    EXPECT_EQ(lingering.take_bytes(), lingering.sent_bytes);
  }
  EXPECT_TRUE(testing::closes_all_but(files_before));
}

// Closing it takes long: with the last descriptor the kernel frees all of its pages.
wire::UniqueFd large_file(off_t bytes) {
  wire::UniqueFd file(::memfd_create("large", MFD_CLOEXEC));
  EXPECT_EQ(::fallocate(file.get(), 0, 0, bytes), 0);
  return file;
}

TEST(CloseAside, PausesAfterWhatTookLong) {
  constexpr auto kLong = std::chrono::milliseconds(20);  // twice what it takes for long
  off_t bytes = off_t{64} << 20;
  for (std::chrono::nanoseconds taken{0}; taken < kLong && bytes < off_t{1} << 30;) {
    bytes *= 2;
    wire::UniqueFd file = large_file(bytes);
    const auto before = thread_time();
    file.reset();
    taken = thread_time() - before;
  }
  wire::UniqueFd file = large_file(bytes);
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const wire::UniqueFd hears(ends[0]);
  wire::UniqueFd next(ends[1]);
  const int number = file.get();
  const auto begin = std::chrono::steady_clock::now();
  close_aside(std::move(file));
  EXPECT_TRUE(testing::eventually([&] { return ::fcntl(number, F_GETFD) == -1; }));
  close_aside(std::move(next));
  pollfd end{hears.get(), 0, 0};
  EXPECT_EQ(::poll(&end, 1, 20'000), 1);
  EXPECT_GT(std::chrono::steady_clock::now() - begin, 5 * kLong) << bytes;
}

}  // namespace
}  // namespace memlease::server
