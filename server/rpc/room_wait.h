// What a call does that the core has refused for want of room: sessions that have ended may still
// have some, and what has gone may not have been given back, or was kept when somebody last looked;
// or the daemon's own memory is short, and calls that have had too much of it are being cut. One
// for each call. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

#include "absl/status/status.h"
#include "server/core/broker.h"
#include "server/rpc/service_host.h"

namespace memlease::server {

class RoomWait {
 public:
  // `host` outlives it. While it waits, the call counts as one of the caller's that do.
  RoomWait(ServiceHost& host, uid_t caller);

  // Whether the call is to be tried again, after wait(). `payer`: on whose account it asked for
  // room. Works off some of the ends of sessions; does not block.
  bool begin(Broker& broker, const absl::Status& refused, uid_t payer);
  // Blocks, without the core, for ten seconds at most from the beginning of the call on.
  void wait();

  // Whether there is something to wait for, for those who cannot.
  static bool is_worthwhile(const ServiceHost& host, const Broker& broker,
                            const absl::Status& refused, uid_t payer);

 private:
  bool choose(Broker& broker, const absl::Status& refused, uid_t payer);

  enum class What { kNothing, kHisOwn, kAll, kRelief };

  ServiceHost& host_;
  const uid_t caller_;
  const std::chrono::steady_clock::time_point until_;
  int waits_ = 0;
  What next_ = What::kNothing;
  uid_t payer_ = 0;
  Charge waiting_;
};

}  // namespace memlease::server
