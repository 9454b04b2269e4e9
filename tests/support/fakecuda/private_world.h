// A world for one test, which this process and its children enter. At its end the trace is checked,
// and what is wrong fails the test. Not thread-safe. On hardware there is none, and nothing is
// found.
#pragma once

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/support/fakecuda/check.h"

// For what the stand-in alone can do or tell: injected faults, several GPUs, the checker's
// findings.
#define FAKECUDA_STAND_IN_ONLY() \
  if (!fakecuda::is_loaded()) GTEST_SKIP() << "stand-in only"

namespace fakecuda {

// Whether this process has the stand-in, and not the real library. Whoever names a CUDA to test
// with in MEMLEASE_TEST_CUDA has the tests behave as on hardware, also with the stand-in.
bool is_loaded();

class PrivateWorld {
 public:
  explicit PrivateWorld(const WorldOptions& options = {});
  // Leaves the world, and adds a failure for each finding that nobody asked for.
  ~PrivateWorld();
  PrivateWorld(const PrivateWorld&) = delete;
  PrivateWorld& operator=(const PrivateWorld&) = delete;

  // Not on hardware.
  World* operator->() const { return world_.get(); }
  // Leaves the world, and gives all that is wrong to the test, which then judges it itself.
  std::vector<Finding> findings();

 private:
  const std::string folder_;
  std::unique_ptr<World> world_;
  bool judged_ = false;
};

// For a test's message.
std::string describe(const std::vector<Finding>& findings);

}  // namespace fakecuda
