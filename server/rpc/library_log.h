// What gRPC and protobuf say, in the daemon's log instead of on standard error: in its form, above
// its level, and so many lines in a time, since peers cause them at will.
#pragma once

#include "server/telemetry/log.h"

namespace memlease::server {

// From construction to destruction, for the whole process: one at a time. Thread-safe.
class LibraryLog {
 public:
  explicit LibraryLog(Log& log);
  ~LibraryLog();
  LibraryLog(const LibraryLog&) = delete;
  LibraryLog& operator=(const LibraryLog&) = delete;
};

}  // namespace memlease::server
