#include "server/rpc/timer_thread.h"

// gRPC's own, from a header that it does not install (src/core/lib/iomgr/timer_manager.h).
// NOLINTNEXTLINE(misc-use-internal-linkage): it is defined there
[[gnu::weak]] void grpc_timer_manager_set_threading(bool enabled);

namespace memlease::server {

void end_timer_thread() {
  if (grpc_timer_manager_set_threading != nullptr) grpc_timer_manager_set_threading(false);
}

}  // namespace memlease::server
