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
  static constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();

  // The stream has just been made to wait. Returns the wait's number; kUnknown: nobody will be able
  // to say when it is over.
  static std::uint64_t note(Importer& importer, Stream stream);
  // The number of the last one that was noted.
  static std::uint64_t last();

  struct Over {
    std::uint64_t up_to = 0;  // all with numbers up to this one
    bool all = false;         // and so all that had been noted
  };
  // Which are over. After an error of its GPU a wait is; in a forked child so are its parent's.
  static Over over();
};

}  // namespace memlease::internal
