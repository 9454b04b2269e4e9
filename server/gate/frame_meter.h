// Measures what a client sends on one HTTP/2 connection, and says when it is too much. Of the
// frames it reads headers only: what the calls are is gRPC's business, which checks it. What is
// bounded here is what makes gRPC take memory without bounds (docs/decisions/0034-http2-gate.md).
//
// The client is untrusted; the server is ours. Not thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>

#include "server/core/account.h"
#include "server/gate/allowance.h"
#include "server/gate/excess.h"
#include "server/gate/frame_reader.h"

namespace memlease::server {

// Made by a Relay for its connection, and told all bytes that pass. Does no I/O and never waits:
// what it is told it has measured when the call returns, whatever the pieces in which the bytes
// come.
class FrameMeter {
 public:
  using Clock = Allowance::Clock;
  static constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  static constexpr std::size_t kMostDataBytes = std::size_t{1} << 20;  // of one frame
  static constexpr std::size_t kMostOtherBytes = std::size_t{16} << 10;
  static constexpr std::size_t kMostHeaderBytes = std::size_t{64} << 10;  // of one block
  // A frame of data costs at least so much, however little is in it.
  static constexpr std::size_t kDataFrameBytes = 64;

  // Both outlive the meter: what the uid may use in a time, and where streams and their data are
  // charged while they are under way.
  FrameMeter(const FrameLimits& limits, Allowance& of_uid, Account& account)
      : limits_(limits), own_(limits.rates), of_uid_(of_uid), account_(account) {}
  // Streams that are open count as given up.
  ~FrameMeter();
  FrameMeter(const FrameMeter&) = delete;
  FrameMeter& operator=(const FrameMeter&) = delete;

  // The client's next bytes. Nothing: they may be passed on. Else what they are too much of: the
  // connection is to be cut, and the meter is told nothing more.
  std::optional<Excess> from_client(std::span<const std::byte> bytes, Clock::time_point now);
  // The server's next bytes, which end streams. They are ours, and not limited.
  void from_server(std::span<const std::byte> bytes);

  // Calls that have no answer yet.
  std::size_t open_streams() const { return open_.size(); }
  struct Load {
    std::size_t calls = 0;
    std::size_t old_calls = 0;  // of them
    std::size_t bytes = 0;      // of data that they have sent
  };
  // Calls that began by then are old.
  Load load(Clock::time_point begun_by) const;

 private:
  std::optional<Excess> measure(const FrameHeader& frame, Clock::time_point now);
  std::optional<Excess> measure_data(const FrameHeader& frame, Clock::time_point now);
  std::optional<Excess> measure_headers(const FrameHeader& frame, Clock::time_point now);
  std::optional<Excess> measure_reset(const FrameHeader& frame, Clock::time_point now);
  std::optional<Excess> take(Excess kind, Clock::time_point now, std::size_t tokens = 1);
  // Its charges end, and what it had in flight. None of that number: does nothing.
  void close(std::uint32_t stream);

  // A call that has no answer yet, and what its uid is charged for it.
  struct Stream {
    Charge request;
    Charge data;
    Clock::time_point since;
    std::size_t data_bytes = 0;
  };

  const FrameLimits limits_;
  Allowance own_;
  Allowance& of_uid_;
  Account& account_;
  std::size_t preface_read_ = 0;
  FrameReader client_frames_;
  FrameReader server_frames_;
  std::size_t header_block_bytes_ = 0;  // 0: none is open
  std::uint32_t last_stream_ = 0;
  std::unordered_map<std::uint32_t, Stream> open_;
  std::size_t bytes_in_flight_ = 0;  // of the data of all that are open
};

}  // namespace memlease::server
