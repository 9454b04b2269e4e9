// Ways to tell other processes that something is there, as the benchmarks compare them: memlease's
// arrays, and what one would write by hand.
#pragma once

#include <memory>
#include <string>

#include "bench/environment.h"
#include "bench/process.h"

namespace memlease::bench {

// Does the message carry 4 KiB, which its sender writes and its receiver sums, or a word alone?
enum class Load { kWord, kPage };

// One direction, to one reader or more. Made before the fork; each process uses one end. send()
// carries ticks() of just before the receivers could know; receive() waits for the next one.
class Channel {
 public:
  static constexpr int kSender = -1;

  virtual ~Channel() = default;
  // In the child that uses it, before the first message. `end`: kSender, or the reader's number.
  virtual void begin(const Options& /*options*/, int /*end*/) {}
  virtual void send() = 0;
  virtual std::uint64_t receive() = 0;
};

std::unique_ptr<Channel> spin_channel(Load load = Load::kWord);
std::unique_ptr<Channel> futex_channel();                   // one FUTEX_WAKE for all readers
std::unique_ptr<Channel> eventfd_channel(int readers = 1);  // an eventfd for each
std::unique_ptr<Channel> socket_channel();  // one message of a UNIX SOCK_SEQPACKET; one reader
// An array of 4 KiB: write, publish; read(newer_than=...).
std::unique_ptr<Channel> array_channel(const std::string& name, Load load = Load::kWord);

}  // namespace memlease::bench
