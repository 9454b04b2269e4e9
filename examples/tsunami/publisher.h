/// Where the simulation hands its fields out: the example's only file that writes through memlease.
///
/// Each rank owns `tsunami/rank<r>/surface`, float32, its rows of the sea surface in metres above
/// sea level, NaN where the ground is dry. Rank 0 also owns `tsunami/clock`, float64: simulated
/// seconds so far, and of the whole run. Version n of every array belongs to step n - 1. Surfaces
/// stand where the solvers work, on the host or on GPUs; the clock is on the host.
#pragma once

#include <memlease/memlease.h>

#include <cstddef>
#include <optional>
#include <string>

namespace tsunami {

/// Not thread-safe. The arrays live as long as this object and whoever still reads them.
class Publisher {
 public:
  struct Block {
    int rank;
    std::size_t rows;
    std::size_t columns;
    std::string device = "host";   // or "cuda:0"
    memlease::Stream stream = {};  // on a GPU, what writes the surfaces; it outlives the publisher
  };
  Publisher(const memlease::Client& client, const Block& block);

  /// Shared memory to write the next version into, row by row. Readers see nothing of it until
  /// publish(); they never make this call wait while a slot is free. On a GPU it is the stream that
  /// waits for readers of that slot, and not the host.
  float* begin_step();

  /// Makes the step visible; the clock first, so that no surface is without its time. What the
  /// stream has been given by now belongs to the version, and readers' streams wait for it.
  void publish(double time_s, double duration_s);

 private:
  const memlease::Stream stream_;
  memlease::Array surface_;
  std::optional<memlease::Array> clock_;
  std::optional<memlease::WriteLease> step_;
};

}  // namespace tsunami
