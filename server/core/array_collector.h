// The arrays that a viewer may see, taken in steps of bounded length: who wants the core meanwhile
// waits for one step at most, however many arrays there are, and patterns are tried between the
// steps. First those that have a name, in the order of names; then, where they are wanted, those
// that have lost it, in the order of ids. What is there all the while is listed; what comes or goes
// in between may be. A list that is made in parts goes on at a place. Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/core/broker.h"

namespace memlease::server {

class ArrayCollector {
 public:
  // About 50 microseconds of work.
  static constexpr std::size_t kArraysPerStep = 512;

  enum class Kinds : std::uint8_t { kHomes, kNamed, kAll };  // kNamed: replicas, too
  struct Found {
    wire::ArrayId id{0};
    std::string name;
    bool withdrawn = false;
    // Where a collector begins that goes on behind this one.
    std::string place() const;
  };

  // `prefix`: names that begin with it alone. `place`: where to begin; empty: with the first one.
  explicit ArrayCollector(PeerIdentity viewer, Kinds kinds = Kinds::kHomes, std::string prefix = "",
                          std::string_view place = "");

  // The next part; it may be empty before the last one.
  std::vector<Found> step(const Broker& broker);
  bool done() const { return done_; }
  // Where a collector begins that goes on behind what step() has looked at.
  std::string place() const;
  // nullptr: it has gone since it was found, or the viewer would not find it like that any more.
  const Array* find(const Broker& broker, const Found& found) const;

 private:
  bool shows(const Broker& broker, const Array& array) const;
  void step_named(const Broker& broker, std::vector<Found>& found);
  void step_withdrawn(const Broker& broker, std::vector<Found>& found);

  const PeerIdentity viewer_;
  const Kinds kinds_;
  const std::string prefix_;
  std::string last_;                      // the name that a step has looked at
  std::optional<wire::ArrayId> last_id_;  // likewise, once there are no more names
  bool done_ = false;
};

}  // namespace memlease::server
