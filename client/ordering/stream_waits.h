// The waits for words that streams of this process have been made to begin and that may go on,
// whatever page the words are on: the driver waits for all of them where memory is closed or pages
// are unregistered. One list for the process, as the driver's waits are. Thread-safe; no call waits
// for the device.
#pragma once

#include <cstdint>
#include <limits>

#include "client/ordering/importer.h"

namespace memlease::internal {

class StreamWaits {
 public:
  // Numbers count up from 1.
  static constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

  // The stream has just been made to wait. Returns the wait's number; kNone: nobody will be able to
  // say when it is over.
  static std::uint64_t note(Importer& importer, Stream stream);
  // Of the last one that was noted.
  static std::uint64_t last();
  // Of the first one that goes on; kNone: none does. After an error of its GPU a wait is over, and
  // in a forked child so are its parent's.
  static std::uint64_t first();
};

}  // namespace memlease::internal
