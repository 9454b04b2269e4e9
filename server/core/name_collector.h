// The names of arrays that a viewer may read, in their order, taken in steps of bounded length: who
// wants the core meanwhile waits for one step at most, however many arrays there are, and patterns
// are tried between the steps. What is there all the while is listed; what comes or goes in between
// may be. Not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "server/core/broker.h"

namespace memlease::server {

class NameCollector {
 public:
  // About 50 microseconds of work.
  static constexpr std::size_t kArraysPerStep = 512;

  explicit NameCollector(PeerIdentity viewer, bool with_replicas = false);

  // The next part; it may be empty before the last one.
  std::vector<std::string> step(const Broker& broker);
  bool done() const { return done_; }

 private:
  const PeerIdentity viewer_;
  const bool with_replicas_;
  std::string last_;  // that a step has looked at
  bool done_ = false;
};

}  // namespace memlease::server
