// A process writes nonsense over every shared page that it has mapped for writing, again and again,
// and dies. Its own arrays are lost; nobody else sees an error.
#include <grp.h>
#include <memlease/memlease.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "tests/support/fork_server.h"
#include "tests/support/goal.h"
#include "tests/support/number_from.h"
#include "tests/support/options_for.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

using Words = std::span<volatile std::uint64_t>;

// What this process shares with others and can write.
std::vector<Words> writable_pages() {
  std::vector<Words> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(" rw-s ") == std::string::npos || line.find("/memfd:") == std::string::npos)
      continue;
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%zx-%zx", &begin, &end) != 2) continue;
    found.emplace_back(reinterpret_cast<volatile std::uint64_t*>(begin),
                       (end - begin) / sizeof(std::uint64_t));
  }
  return found;
}

class Scribbler {
 public:
  explicit Scribbler(std::uint64_t seed) : random_(seed) {}

  // One pass, in one way. The bytes written.
  std::uint64_t scribble(Words words) {
    const std::uint64_t way = random_() % 8;
    const std::uint64_t value = random_();
    for (auto& word : words) word = changed(word, way, value);
    return words.size_bytes();
  }

 private:
  std::uint64_t changed(std::uint64_t was, std::uint64_t way, std::uint64_t value) {
    switch (way) {
      case 0:
        return UINT64_MAX;
      case 1:
        return UINT64_MAX - 1;
      case 2:
        return was - 1;
      case 3:
        return was | 1;
      case 4:
        return 0;
      case 5:
        return value;
      case 6:
        return value % 64;
      default:
        return random_();
    }
  }
  std::mt19937_64 random_;
};

class Scribblers : public ::testing::Test {
 protected:
  static constexpr uid_t kUid = 4001;
  static constexpr uid_t kOther = 4002;

  // In the child: `bytes_each_` of nonsense, with calls between, which make the daemon look at it.
  void live(std::uint64_t seed) {
    if (::setgroups(0, nullptr) != 0 || ::setgid(kUid) != 0 || ::setuid(kUid) != 0) std::abort();
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::alarm(60);
    const Client client = Client::connect(options_for(daemon_));
    std::vector<Array> arrays;
    std::vector<ReadLease> leases;
    for (const std::uint32_t slots : {1U, 3U}) {
      CreateOptions options;
      options.name = fmt::format("own{}/{}", slots, seed);
      options.slots = slots;
      options.mode = 0644;
      options.shape = {512};
      options.dtype = dtype_of<std::uint64_t>();
      arrays.push_back(client.create(options));
      arrays.back().write().publish();
      leases.push_back(arrays.back().read());
    }
    WriteLease write = arrays.back().write();
    arrays.push_back(client.open("lent"));
    leases.push_back(arrays.back().read());
    const std::vector<Words> pages = writable_pages();
    if (pages.size() < 3) throw Internal("there is nothing to write over", "");
    Scribbler scribbler(seed);
    std::uint64_t written = 0;
    for (std::uint64_t pass = 0; written < bytes_each_; ++pass) {
      for (const Words words : pages) written += scribbler.scribble(words);
      if (pass % 64 == 0) call_anyway(client, seed);
    }
    ::kill(::getpid(), SIGKILL);
  }
  static void call_anyway(const Client& client, std::uint64_t seed) {
    try {
      static_cast<void>(client.list());
      CreateOptions options;
      options.name = fmt::format("more/{}", seed);
      options.shape = {8};
      options.dtype = dtype_of<std::uint64_t>();
      client.create(options);
      client.withdraw(options.name);
      static_cast<void>(client.open("lent"));
    } catch (const Error&) {
      // It is not the one that is to have no errors.
    }
  }
  static void run(Peer& peer, const std::string& command) {
    const Answer answer = peer.ask(command);
    ASSERT_TRUE(answer.ok()) << command << ": " << answer.describe();
  }

  const std::uint64_t bytes_each_ = goal(2'000'000, 20'000'000);
  PrivateDaemon daemon_{{"--socket-mode=0666", "--warm-bytes=0", "--log-level=error"}};
  ForkServer scribblers_{[this](std::uint64_t seed) { live(seed); }};
};

TEST_F(Scribblers, HurtNobodyButTheirOwnArrays) {
  const std::uint64_t first = number_from("MEMLEASE_STORM_SEED", std::random_device{}());
  SCOPED_TRACE(fmt::format("MEMLEASE_STORM_SEED={}", first));
  const std::uint64_t lives = goal(4'000'000, 10'000'000'000) / bytes_each_;
  // "lent" is what a scribbler reads, too; "apart" is what it has nothing to do with.
  Peer owner(daemon_.directory());
  Peer reader(daemon_.directory());
  Peer of_its_user(daemon_.directory(), Peer::User{kUid, kUid});
  Peer of_another(daemon_.directory(), Peer::User{kOther, kOther});
  std::uint64_t puts = 0;
  for (Peer* peer : {&owner, &reader, &of_its_user, &of_another})
    ASSERT_NO_FATAL_FAILURE(run(*peer, "connect"));
  for (const char* name : {"lent", "apart"}) {
    ASSERT_NO_FATAL_FAILURE(run(owner, fmt::format("create {} 3 644 512 persistent", name)));
    ASSERT_NO_FATAL_FAILURE(run(owner, fmt::format("put {} 1000", name)));
    for (Peer* peer : {&reader, &of_its_user, &of_another}) {
      ASSERT_NO_FATAL_FAILURE(run(*peer, fmt::format("watch {}", name)));
    }
  }
  for (std::uint64_t i = 0; i < lives; ++i) {
    scribblers_.start(first + i);
    while (!scribblers_.ended()) {
      for (const char* command : {"put lent 2000", "put apart 2000", "exists lent"}) {
        ASSERT_NO_FATAL_FAILURE(run(owner, command)) << "scribbler " << i;
      }
      puts += 2;
    }
    const int status = scribblers_.wait();
    ASSERT_TRUE(WIFSIGNALED(status)) << "scribbler " << i << " ended by itself: " << status;
    ASSERT_EQ(WTERMSIG(status), SIGKILL) << "scribbler " << i;
  }
  std::uint64_t reads = 0;
  for (const char* name : {"lent", "apart"}) {
    for (Peer* peer : {&reader, &of_its_user, &of_another}) {
      const Answer watched = peer->ask(fmt::format("unwatch {}", name));
      ASSERT_TRUE(watched.ok()) << name << ": " << watched.describe();
      reads += watched.number();
    }
    ASSERT_NO_FATAL_FAILURE(run(owner, fmt::format("withdraw {}", name)));
  }
  EXPECT_EQ(daemon_.unsettled(4), "");
  reached(
      "{} bytes of nonsense over the shared pages of {} processes (first seed {}), which then "
      "died: others made {} versions and {} reads without an error",
      lives * bytes_each_, lives, first, puts, reads);
}

}  // namespace
}  // namespace memlease::testing
