// Whose an array's handle is. Implemented by Connection (client/api/connection.h), in tests by
// FakeHandleOwner. Called by ArrayHandle and WrittenReplicas. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/arrays/open_array.h"
#include "client/session/interrupt.h"

namespace memlease::internal {

class ArrayHandle;

class HandleOwner {
 public:
  struct Opened {
    std::shared_ptr<HandleOwner> owner;
    std::shared_ptr<OpenArray> array;  // with one of its handles
  };
  virtual ~HandleOwner() = default;
  // Session::add_interrupt_check.
  virtual std::uint64_t interrupt_check() const { return 0; }
  virtual bool strict() const { return false; }  // ConnectOptions
  // In a forked child: the array of that handle, which the parent had open as `before`. Calls the
  // daemon. kWithdrawn if it has gone, or another one has its name; kDaemonLost if its daemon has;
  // kClosed; and what connect() and open() say.
  virtual absl::StatusOr<Opened> open_again(const OpenArray& before,
                                            std::weak_ptr<ArrayHandle> handle) = 0;
  // A handle on a replica of that array, which this process has open: on a device, made if need be,
  // with a handle of its own on the home. Calls the daemon.
  virtual absl::StatusOr<std::shared_ptr<ArrayHandle>> open_replica(OpenArray& home,
                                                                    const std::string& device,
                                                                    InterruptCheck interrupt) = 0;
  // The replica of a number, with one of its handles, to look at: also one that is out of this
  // process's reach. Calls the daemon. kNotFound; kClosed.
  virtual absl::StatusOr<std::shared_ptr<OpenArray>> join_replica(OpenArray& home,
                                                                  std::uint32_t number,
                                                                  InterruptCheck interrupt) = 0;
};

}  // namespace memlease::internal
