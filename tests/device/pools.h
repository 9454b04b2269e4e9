// Daemons and peers that outlive a test. On hardware a process needs a second for its first use of
// a GPU and another one to end, one process after the other on the whole machine. So there the
// tests of a program share them, and each leaves them as it found them. On the stand-in each test
// has its own. Not thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {

// A daemon for one test.
class TestDaemon {
 public:
  explicit TestDaemon(std::vector<std::string> flags);
  // Withdraws all arrays, where it is shared: what it then still has is a test failure. After one,
  // or if the test has killed it, the next test gets another one.
  ~TestDaemon();
  TestDaemon(const TestDaemon&) = delete;
  TestDaemon& operator=(const TestDaemon&) = delete;

  PrivateDaemon& operator*() const { return *daemon_; }

 private:
  const std::vector<std::string> flags_;
  std::unique_ptr<PrivateDaemon> daemon_;
};

// A peer that has done nothing yet, or that has forgotten all.
Peer take_peer(const std::string& directory);
// Keeps it for the next test, where they are shared and if it lives and does what it is told.
void give_back(Peer& peer);

}  // namespace memlease::testing
