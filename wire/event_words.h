// Events of streams of different processes, as words of memory that they share. An event orders
// streams as CUDA's own events do, but nothing of it can be lost with its recorder: when that has
// died, the daemon says by a store that all is complete. A recorder whose device has failed does so
// itself, as nothing of what it was given goes on; what it had written is unknown then (kLost).
//
//   record: count in `recorded`, by the host; then the stream writes the count to `complete`
//   wait:   load `recorded`; then the stream waits until `complete` is no less
//
// Only one process at a time may record an event: a slot's writer, or a row's reader. Nobody
// records again before all who must wait for the last record have loaded its count.
#pragma once

#include <cstdint>

#include "wire/session_pages.h"
#include "wire/shared_word.h"

namespace memlease::wire {

struct EventWords {
  // In `complete`, beside the count. Who waits goes on: to streams, which compare on a circle, it
  // is more than any count. The daemon takes it away when it has poisoned the version.
  static constexpr std::uint64_t kLost = std::uint64_t{1} << 62;

  Word recorded{0};
  Word complete{0};  // written by streams; by the daemon when the recorder has died

  bool is_lost() const { return (complete.load() & kLost) != 0; }
  // By a stream, or by the daemon.
  bool is_complete() const { return complete.load() >= recorded.load() && !is_lost(); }
};
static_assert(sizeof(EventWords) == 16);

// Of an array's slots: in a page that all may write who may write the array.
inline constexpr std::uint64_t kEventPageBytes = std::uint64_t{64} * 1024;

// An array, or a row, has as many as it may have slots.
constexpr std::uint32_t event_units(std::uint32_t slots) {
  return static_cast<std::uint32_t>((slots * sizeof(EventWords) + kRowUnitBytes - 1) /
                                    kRowUnitBytes);
}

// A reader's row for a device whose work goes on after a call has its events behind it.
constexpr std::uint32_t reader_row_units_with_events(std::uint32_t slots) {
  return reader_row_units(slots) + event_units(slots);
}
// Where they are, in bytes from the row's beginning.
constexpr std::uint64_t events_offset(std::uint32_t slots) {
  return std::uint64_t{reader_row_units(slots)} * kRowUnitBytes;
}

}  // namespace memlease::wire
