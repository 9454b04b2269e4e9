// A page of events as this process has it mapped, and registered for its streams if the device can
// do that: then streams write and wait for words there. Destroying it ends both, and may wait for
// the device; no stream may have to look there any more. Thread-safe.
#pragma once

#include <memlease/stream.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ordering/importer.h"
#include "client/session/fork_guard.h"
#include "client/session/mapping_cache.h"
#include "wire/mutex.h"

namespace memlease::internal {

class EventPage {
 public:
  // Never fails: pages that cannot be registered are for the host. May wait for the device.
  static std::unique_ptr<EventPage> make(std::shared_ptr<Mapping> mapping, Importer& importer);

  const Mapping& mapping() const { return *mapping_; }
  // Do streams of this device write and wait for words here? Else hosts do so in their place, also
  // where streams of another device can.
  bool orders(Importer& importer) const {
    return registered_ != nullptr && importer.orders_by_words();
  }
  // The stream has just been made to wait for a word here: until then it may look at it.
  void note_wait(Importer& importer, Stream stream);
  // Is that over for all streams? After an error of the GPU it is.
  bool waits_are_over();
  // Where nobody will look again whether they are: it stays open until the process exits, and all
  // of `with`.
  static void keep_open(std::unique_ptr<EventPage> page, OpenMemory with);

 private:
  using Marks = std::vector<std::unique_ptr<StreamMark>>;

  explicit EventPage(std::shared_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {}
  void take_reached(Marks& reached) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<Mapping> mapping_;
  const std::uint32_t fork_generation_ = fork_generation();
  std::unique_ptr<RegisteredPages> registered_;  // goes first
  EventPage* next_kept_ = nullptr;               // of those that stay open
  OpenMemory kept_with_;                         // such a page

  wire::Mutex mutex_;
  // Behind each wait that may go on; nullptr: nobody can say whether it does.
  Marks waits_ ABSL_GUARDED_BY(mutex_);
  std::size_t looks_at_ ABSL_GUARDED_BY(mutex_) = 8;  // so many, for those that are over
};

}  // namespace memlease::internal
