// Ways to tell another process that something is there, as the benchmarks compare them: memlease's
// arrays, and what one would write by hand.
#pragma once

#include <memory>
#include <string>

#include "bench/environment.h"
#include "bench/process.h"

namespace memlease::bench {

// One direction. Made before the fork; each process uses one end. send() carries ticks() of just
// before the receiver could know; receive() waits for the next one.
class Channel {
 public:
  virtual ~Channel() = default;
  // In the child that uses it, before the first message.
  virtual void begin(const Options& /*options*/, bool /*sends*/) {}
  virtual void send() = 0;
  virtual std::uint64_t receive() = 0;
};

std::unique_ptr<Channel> spin_channel();
std::unique_ptr<Channel> futex_channel();
std::unique_ptr<Channel> eventfd_channel();
std::unique_ptr<Channel> socket_channel();  // one message of a UNIX SOCK_SEQPACKET
// An array of 4 KiB: write, publish; read(newer_than=...).
std::unique_ptr<Channel> array_channel(const std::string& name);

}  // namespace memlease::bench
