// A daemon with a world of GPUs of its own, and client processes in it.
#pragma once

#include <cstdlib>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
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
  explicit DeviceTest(const std::vector<std::string>& flags = {}) : daemon(flags) {}

  // A peer that is connected.
  struct Client : Peer {
    explicit Client(const PrivateDaemon& daemon) : Peer(daemon.directory()) { is_ok("connect"); }
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
  // The code of a command that must fail.
  static std::string error(Client& peer, const std::string& command) {
    const Answer answer = peer.ask(command);
    return answer.kind == Answer::Kind::kError ? answer.code : answer.describe();
  }

  // Whether a later record frees those who wait for a lost one. The stand-in does as it is told;
  // what this GPU does, a probe has found out before (tests/hardware/probes.py).
  bool a_later_record_frees(bool wanted) {
    if (fakecuda::is_loaded()) {
      world->set(fakecuda::Knob::kHeirReleases, wanted ? 1 : 0);
      return true;
    }
    const char* const known = std::getenv("MEMLEASE_HEIR_RELEASES");
    return known != nullptr && known == std::string(wanted ? "1" : "0");
  }

  fakecuda::PrivateWorld world;
  PrivateDaemon daemon;
};

}  // namespace memlease::testing
