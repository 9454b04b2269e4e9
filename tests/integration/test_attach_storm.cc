// Connections to attach.sock whose frames are malformed, one after the other without a pause: each
// ends, and those who have a session notice nothing. MEMLEASE_STORM_SEED repeats a run.
#include <grp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/support/fork_server.h"
#include "tests/support/goal.h"
#include "tests/support/number_from.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"
#include "tests/support/unix_socket.h"
#include "wire/attach_frame.h"
#include "wire/frame_socket.h"

namespace memlease::testing {
namespace {

using Bytes = std::vector<std::byte>;

std::vector<Bytes> attach_corpus() {
  std::vector<Bytes> all;
  for (const auto& entry :
       std::filesystem::directory_iterator(MEMLEASE_SOURCE_DIR "/tests/fuzz/corpus/attach_frame")) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const auto bytes = std::as_bytes(std::span(text));
    all.emplace_back(bytes.begin(), bytes.end());
  }
  return all;
}

// One process's connections, by a thread. Each goes as far as its frames are right, which the last
// one is not.
class BadClient {
 public:
  // Where the test sees it.
  struct Count {
    std::atomic<std::uint64_t> refused = 0;   // told why, then cut
    std::atomic<std::uint64_t> cut = 0;       // without a word
    std::atomic<std::uint64_t> attached = 0;  // of these, such that had a session before
  };

  BadClient(std::string path, const std::vector<Bytes>& corpus, std::uint64_t seed, Count* count)
      : path_(std::move(path)), corpus_(corpus), random_(seed), count_(*count) {}

  void connect_once() {
    const wire::UniqueFd socket = connect_unix(path_, SOCK_SEQPACKET);
    if (!socket) fail(fmt::format("connect: {}", std::strerror(errno)));
    const timeval patience{20, 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    switch (random_() % 8) {
      case 0:  // says HELLO, and then what is no proof
        if (say(socket.get(), wire::HelloFrame{}) && challenged(socket.get()))
          say_badly(socket.get());
        break;
      case 1:  // has a session, and then does not know how to ask
        if (attach(socket.get())) say_badly(socket.get());
        break;
      default:
        say_badly(socket.get());
    }
    // What happened to be right is answered: until something is not.
    for (int frames = 0; frames < 20; ++frames) {
      const auto received = receive(socket.get());
      if (received.outcome == wire::Received::Outcome::kEnd) return void(++count_.cut);
      const auto frame = wire::parse_frame(received.bytes());
      if (received.outcome != wire::Received::Outcome::kFrame || !frame.ok()) fail("no answer");
      if (std::holds_alternative<wire::ErrorFrame>(frame->payload)) {
        // Of a session's wrong request for a file the connection may go on.
        ::shutdown(socket.get(), SHUT_WR);
        if (!ends(socket.get())) fail("the connection goes on");
        return void(++count_.refused);
      }
      say_badly(socket.get());
    }
    fail("twenty frames were taken");
  }

 private:
  [[noreturn]] static void fail(const std::string& what) { throw std::runtime_error(what); }
  static bool say(int socket, const wire::Payload& payload) {
    return wire::send_frame(socket, wire::encode_frame({0, payload})) == 0;
  }
  static wire::Received receive(int socket) {
    char first = 0;  // waits
    if (::recv(socket, &first, 1, MSG_PEEK) < 0 && errno != ECONNRESET) return {};
    return wire::receive_frame(socket, wire::Ancillary::kFiles);
  }
  static bool ends(int socket) {
    for (int frames = 0; frames < 20; ++frames) {
      const auto received = receive(socket);
      if (received.outcome == wire::Received::Outcome::kEnd) return true;
      if (received.outcome == wire::Received::Outcome::kNothing) return false;
    }
    return false;
  }
  static std::optional<wire::Nonce> challenged(int socket) {
    const auto received = receive(socket);
    const auto frame = wire::parse_frame(received.bytes());
    const auto* challenge =
        frame.ok() ? std::get_if<wire::ChallengeFrame>(&frame->payload) : nullptr;
    if (challenge == nullptr) return std::nullopt;
    return challenge->nonce;
  }
  bool attach(int socket) {
    if (!say(socket, wire::HelloFrame{})) return false;
    const auto nonce = challenged(socket);
    if (!nonce || !say(socket, wire::ProofFrame{*nonce})) return false;
    const auto received = receive(socket);
    const auto frame = wire::parse_frame(received.bytes());
    if (!frame.ok() || !std::holds_alternative<wire::WelcomeFrame>(frame->payload)) return false;
    ++count_.attached;
    return true;
  }

  void say_badly(int socket) {
    const Bytes bytes = bad_frame();
    const int fd = STDERR_FILENO;
    const auto fds = random_() % 16 == 0 ? std::span<const int>(&fd, 1) : std::span<const int>();
    // The connection may have ended; and from Linux 6.16 on nobody can send descriptors.
    if (wire::send_frame(socket, bytes, fds) == EPERM) wire::send_frame(socket, bytes);
  }
  std::byte byte() { return static_cast<std::byte>(random_()); }
  Bytes bad_frame() {
    if (random_() % 8 == 0) {  // nothing like a frame
      Bytes bytes(random_() % 4200);
      std::ranges::generate(bytes, [this] { return byte(); });
      return bytes;
    }
    Bytes bytes = corpus_.at(random_() % corpus_.size());
    if (random_() % 8 == 0) return bytes;  // a right frame, at the wrong time
    for (auto changes = 1 + (random_() % 3); changes > 0 && !bytes.empty(); --changes) {
      const std::size_t at = random_() % bytes.size();
      switch (random_() % 4) {
        case 0:
          bytes[at] ^= static_cast<std::byte>(1U << (random_() % 8));
          break;
        case 1:
          bytes[at] = byte();
          break;
        case 2:
          bytes.resize(at);
          break;
        default:
          bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), random_() % 40, byte());
      }
    }
    return bytes;
  }

  const std::string path_;
  const std::vector<Bytes>& corpus_;
  std::mt19937_64 random_;
  Count& count_;
};

class AttachStorm : public ::testing::Test {
 protected:
  static constexpr uid_t kStormer = 4001;
  // Sessions last as long as their process, and a user may have 256.
  static constexpr std::uint64_t kConnectionsOfAProcess = 500;

  AttachStorm() { EXPECT_NE(count_, MAP_FAILED); }
  ~AttachStorm() override { ::munmap(count_, sizeof *count_); }

  void storm(std::uint64_t seed) {
    if (::setgroups(0, nullptr) != 0 || ::setgid(kStormer) != 0 || ::setuid(kStormer) != 0) {
      throw std::runtime_error("this test needs root");
    }
    BadClient client(daemon_.directory() + "/attach.sock", corpus_, seed, count_);
    for (std::uint64_t i = 0; i < kConnectionsOfAProcess; ++i) client.connect_once();
  }

  BadClient::Count* const count_ =
      new (::mmap(nullptr, sizeof(BadClient::Count), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0)) BadClient::Count;
  const std::vector<Bytes> corpus_ = attach_corpus();
  PrivateDaemon daemon_{{"--socket-mode=0666"}};
  std::array<ForkServer, 2> stormers_{ForkServer([this](std::uint64_t seed) { storm(seed); }),
                                      ForkServer([this](std::uint64_t seed) { storm(seed); })};
};

TEST_F(AttachStorm, OfBadFramesIsRefusedAndHurtsNobody) {
  const std::uint64_t first = number_from("MEMLEASE_STORM_SEED", std::random_device{}());
  SCOPED_TRACE(fmt::format("MEMLEASE_STORM_SEED={}", first));
  const std::uint64_t processes = goal(2'000, 1'000'000) / kConnectionsOfAProcess;
  Peer owner(daemon_.directory());
  Peer reader(daemon_.directory());
  for (Peer* peer : {&owner, &reader}) ASSERT_TRUE(peer->ask("connect").ok());
  ASSERT_TRUE(owner.ask("create a 3 600 512 persistent").ok());
  ASSERT_TRUE(owner.ask("put a 1000").ok());
  ASSERT_TRUE(reader.ask("watch a").ok());
  const std::size_t files = daemon_.open_files();

  const auto start = std::chrono::steady_clock::now();
  std::uint64_t calls = 0;
  std::uint64_t begun = 0;
  std::string wrong;
  for (ForkServer& stormer : stormers_) stormer.start(first + begun++);
  for (std::uint64_t ended = 0; ended < processes && wrong.empty(); ++calls) {
    for (const char* command : {"put a 1000", "exists a"}) {
      const Answer answer = owner.ask(command);
      if (!answer.ok()) wrong = answer.describe();
    }
    for (ForkServer& stormer : stormers_) {
      if (!stormer.is_busy() || !stormer.ended()) continue;
      ++ended;
      if (stormer.wait() != 0) wrong = "a stormer was not refused as it should be";
      if (begun < processes) stormer.start(first + begun++);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // the storm is to have the daemon
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;

  EXPECT_EQ(wrong, "");
  const std::uint64_t connections = count_->refused + count_->cut;
  EXPECT_EQ(connections, processes * kConnectionsOfAProcess);
  const auto rate = static_cast<double>(connections) / took.count();
  EXPECT_GT(rate, static_cast<double>(goal(100, 5'000)));
  const Answer watched = reader.ask("unwatch a");
  EXPECT_TRUE(watched.ok()) << watched.describe();
  const std::string log = daemon_.log();
  const auto lines = std::ranges::count(log, '\n');
  EXPECT_LT(static_cast<double>(lines), 300 + (20 * took.count()));
  ASSERT_TRUE(owner.ask("withdraw a").ok());
  EXPECT_EQ(daemon_.unsettled(2), "");
  EXPECT_LE(daemon_.open_files(), files + 4);  // gRPC may keep what a call needs
  reached(
      "{} hostile connections to attach.sock (first seed {}), {} of them with a session first: "
      "{:.0f} "
      "ended each second, {} without a word; others' {} calls and {} reads without an error; {} "
      "lines "
      "in the log",
      connections, first, count_->attached.load(), rate, count_->cut.load(), 2 * calls,
      watched.number(), lines);
}

}  // namespace
}  // namespace memlease::testing
