// The daemon's state in figures, for the metrics: sums over arrays, sessions and devices, never a
// figure for each array. Collected in steps of bounded length, so that nobody waits for the core
// longer than one step takes, however many arrays there are: what changes in between is seen either
// before or after, and counts never go back (server/core/tally.h). Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "server/core/broker.h"

namespace memlease::server {

struct DeviceFigures {
  // Arrays with a name; and those that have lost it, and are there for those who use them.
  std::uint64_t arrays = 0;
  std::uint64_t withdrawn_arrays = 0;
  std::uint64_t array_bytes = 0;  // of all slots
  std::uint64_t withdrawn_bytes = 0;
  std::uint64_t added_slots = 0;
  std::uint64_t added_bytes = 0;
  std::uint64_t held_slots = 0;  // by readers
  std::uint64_t held_bytes = 0;
  // Taken of the device: what arrays have of it, the segments that are kept warm, those that have
  // gone but that somebody can still write, and free room in the others.
  std::uint64_t used_bytes = 0;
  std::uint64_t warm_bytes = 0;
  std::uint64_t kept_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t memory_limit_bytes = 0;
};

struct Figures {
  std::map<std::string, DeviceFigures> devices;
  std::uint64_t sessions_connected = 0;
  std::uint64_t sessions_leaving = 0;    // hung up, and still there until their process exits
  std::uint64_t writes_in_progress = 0;  // handed out, and neither published nor dropped
  bool draining = false;
  Totals totals;
};

class FigureCollector {
 public:
  // What step() has to look at, and what devices have.
  void begin(const Broker& broker);
  // Takes the next part; false: that was the last one.
  bool step(Broker& broker);
  // After the last step.
  Figures take() { return std::move(figures_); }

 private:
  void add(Broker& broker, Array& array);
  void add(Broker& broker, Session& session);

  std::vector<wire::ArrayId> arrays_;
  std::vector<wire::SessionId> sessions_;
  std::size_t next_array_ = 0;
  std::size_t next_session_ = 0;
  Figures figures_;
};

}  // namespace memlease::server
