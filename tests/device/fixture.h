// A daemon with a world of GPUs of its own, and client processes in it.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "memlease/v1/admin.pb.h"
#include "tests/device/pools.h"
#include "tests/support/fakecuda/private_world.h"
#include "tests/support/in_build.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {

// Programs that are started from now on load the stand-in by the runtime library's name, if this
// one has: on hardware LD_LIBRARY_PATH leads to the real one, and is let alone.
class StandInPath {
 public:
  StandInPath() {
    if (fakecuda::is_loaded()) setenv("LD_LIBRARY_PATH", in_build("fakecuda").c_str(), 1);
  }
  ~StandInPath() {
    if (fakecuda::is_loaded()) unsetenv("LD_LIBRARY_PATH");
  }
  StandInPath(const StandInPath&) = delete;
  StandInPath& operator=(const StandInPath&) = delete;
};

class DeviceTest : public ::testing::Test {
 protected:
  explicit DeviceTest(const std::vector<std::string>& flags = {}) : own_(flags) {}

  // A peer that is connected.
  struct Client : Peer {
    explicit Client(const PrivateDaemon& daemon) : Peer(take_peer(daemon.directory())) {
      is_ok("connect");
    }
    ~Client() { give_back(*this); }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;
    // The answer to a command that must succeed.
    std::string is_ok(const std::string& command) {
      const Answer answer = ask(command);
      EXPECT_TRUE(answer.ok()) << command << ": " << answer.describe();
      return answer.text;
    }
  };

  StandInPath path_;
  // Publishes a version whose elements are all `value`, by a kernel on the stream "s".
  static void publish(Client& writer, int value) {
    writer.is_ok("write a s");
    writer.is_ok("fill a " + std::to_string(value) + " s");
    writer.is_ok("publish a");
  }
  // That the daemon has, replicas among them.
  std::uint64_t arrays() {
    const auto status = daemon.admin().status();
    return status.ok() ? status->arrays() : 0;
  }
  // Reads the current version, whose elements are to be `expected`, by a kernel on the stream "r",
  // which may go on; "mismatches r" tells what it saw.
  static void read(Client& reader, int expected) {
    reader.is_ok("read a r");
    reader.is_ok("look a " + std::to_string(expected) + " r");
    reader.is_ok("release a");
  }
  // As publish(), and its kernel does not end before "ungate".
  static void publish_unfinished(Client& writer, int value) {
    writer.is_ok("gate s");
    publish(writer, value);
  }
  static bool becomes(const std::function<bool()>& holds) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!holds()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }
  // The code of a command that must fail.
  static std::string error(Client& peer, const std::string& command) {
    const Answer answer = peer.ask(command);
    return answer.kind == Answer::Kind::kError ? answer.code : answer.describe();
  }

  // That the checker finds a race between these two operations. Delays decide which of them comes
  // first, and so what the race is called.
  void expect_race(const std::string& one, const std::string& other) {
    const std::set<std::string> wanted = {one, other};
    const auto findings = world.findings();
    EXPECT_TRUE(std::any_of(findings.begin(), findings.end(), [&](const auto& found) {
      return found.race() &&
             std::set<std::string>{found.first.operation, found.second.operation} == wanted;
    })) << fakecuda::describe(findings);
  }

  // Whether the command that was said to a peer waits for the GPU on its host: it asks again and
  // again whether a record is complete, and has not answered. Without the stand-in, which counts
  // that, all that can be told is that there is no answer for a while.
  ::testing::AssertionResult waits(Client& peer) {
    constexpr std::uint64_t kAgainAndAgain = 50;  // more than a call that does not wait
    const auto asked = [&] {
      if (!fakecuda::is_loaded()) return std::uint64_t{0};
      return world->calls("cudaEventQuery", peer.pid()) +
             world->calls("cudaStreamQuery", peer.pid());
    };
    const auto before = asked();
    for (int ms = 0; ms < (fakecuda::is_loaded() ? 10'000 : 100); ++ms) {
      if (const Answer answer = peer.answer(1); answer.kind != Answer::Kind::kSilent) {
        return ::testing::AssertionFailure() << "it has answered: " << answer.describe();
      }
      if (asked() - before > kAgainAndAgain) return ::testing::AssertionSuccess();
    }
    if (!fakecuda::is_loaded()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "it neither waits nor answers";
  }

  fakecuda::PrivateWorld world;

 private:
  const TestDaemon own_;

 protected:
  PrivateDaemon& daemon = *own_;
};

}  // namespace memlease::testing
