#include <memlease/stop.h>

#include "wire/futex.h"

namespace memlease::internal {

void Stop::request() noexcept {
  if (word_.exchange(1) == 0) wire::futex_wake_all(word_);
}

}  // namespace memlease::internal
