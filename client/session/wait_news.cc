#include "client/session/wait_news.h"

#include "wire/hooks/test_hooks.h"

namespace memlease::internal {

void WaitNews::tell() {
  if (leaves_out("tell who waits")) return;
  count_.fetch_add(1);
  if (sleepers_.load() != 0) wire::futex_wake_all(count_);
}

}  // namespace memlease::internal
