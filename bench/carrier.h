// Ways to bring a payload from one process to another, as bench_bytes compares them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "bench/environment.h"

namespace memlease::bench {

using Words = std::span<std::uint64_t>;

// Made before the fork; each process uses one end. Of one size.
class Carrier {
 public:
  // What the receiver does with the payload: looks at its first word, or sums all of it.
  enum class Use { kLook, kSum };
  struct Received {
    std::uint64_t value;        // the first word, or the sum
    std::uint64_t got_ticks;    // all of it was here
    std::uint64_t ended_ticks;  // and used
  };

  virtual ~Carrier() = default;
  virtual void begin_sending(const Options& options) = 0;
  virtual void begin_receiving(const Options& options) = 0;
  // Where the sender puts the next payload.
  virtual Words prepare() = 0;
  virtual void send() = 0;
  virtual Received receive(Use use) = 0;
  // Both ends, before the other's process goes.
  virtual void end() {}
};

std::unique_ptr<Carrier> array_carrier(const std::string& name, std::size_t words);
// Chunks of 1 MiB in a stream of gRPC's. The receiver uses each as it comes.
std::unique_ptr<Carrier> grpc_carrier(const std::string& socket, std::size_t words);

}  // namespace memlease::bench
