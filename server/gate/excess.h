// What a client can have too much of on a gated connection. The names are for the log and for the
// metrics, and stable there. Plain values.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace memlease::server {

enum class Excess : std::size_t {
  kNotHttp2,       // the connection does not begin with HTTP/2's preface
  kFrameSize,      // one frame
  kHeaderBlock,    // HEADERS and CONTINUATION without END_HEADERS
  kOpenStreams,    // calls that have no answer yet
  kBytesInFlight,  // data of these calls
  kNewStreams,     // these, and those below, in a time
  kResets,         // calls that were given up, also by closing the connection
  kPings,
  kSettings,
  kWindowUpdates,
  kOtherFrames,
  kHeaderBytes,
  kUnreadReplies,  // nothing was read for too long
  kWaiters,        // threads that wait at the client's end: one message took the kernel 100 ms
  kMemory,         // of the daemon's, which is nearly used up: its user's calls kept most of it
};

inline constexpr std::array<std::string_view, 15> kExcessNames{
    "not_http2",    "frame_size",   "header_block",   "open_streams", "bytes_in_flight",
    "new_streams",  "resets",       "pings",          "settings",     "window_updates",
    "other_frames", "header_bytes", "unread_replies", "waiters",      "memory"};

// "frame_size": a label of the metrics.
constexpr std::string_view name_of(Excess excess) {
  return kExcessNames.at(static_cast<std::size_t>(excess));
}

}  // namespace memlease::server
