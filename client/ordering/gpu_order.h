// What orders the streams of all processes on one array on a GPU, as one process has it.
#pragma once

#include <chrono>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ordering/import_cache.h"
#include "client/ordering/importer.h"
#include "client/ordering/reader_order.h"
#include "client/ordering/version_events.h"
#include "client/ordering/writer_order.h"
#include "client/session/interrupt.h"
#include "client/session/known_array.h"
#include "wire/ids.h"

namespace memlease::internal {

// How long whoever leaves arrays waits for complete() at most. Work that lasts longer keeps what it
// needs open.
inline constexpr std::chrono::seconds kGpuDrainTimeout{10};

// Thread-safe, apart from writer(), which is used inside of a write. Belongs to GpuArray,
// then to GpuUse, which destroys it once complete() says so.
class GpuOrder {
 public:
  // Opens the slots' events: asks the daemon for their page and registers it, which may wait for
  // the device; no lock is held meanwhile. Errors: those of MappingCache::get().
  static absl::StatusOr<std::unique_ptr<GpuOrder>> open(Importer& importer, ImportCache& imports,
                                                        const KnownArray& known,
                                                        InterruptCheck interrupt);

  VersionEvents& versions() { return *versions_; }
  ReaderOrder& reader() { return reader_; }
  WriterOrder& writer() { return writer_; }
  // Is all over that this process recorded? Asked before leaving; does not wait. After an error of
  // the GPU it is, and keeps nobody waiting any more.
  bool complete() { return versions_->complete() && reader_.complete(); }

 private:
  GpuOrder(std::unique_ptr<VersionEvents> versions, ImportCache& imports)
      : versions_(std::move(versions)),
        reader_(*versions_),
        writer_(*versions_, reader_, imports) {}

  const std::unique_ptr<VersionEvents> versions_;
  ReaderOrder reader_;
  WriterOrder writer_;
};

}  // namespace memlease::internal
