// A page of events as this process has it mapped, and registered for its streams if the device can
// do that: then streams write and wait for words there. Destroying it ends both, and may wait for
// the device; no stream may have to look there any more. Thread-safe.
#pragma once

#include <memlease/stream.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "client/ordering/importer.h"
#include "client/session/mapping_cache.h"

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
  // Is that over for all streams, if all waits up to this number are? (StreamWaits::over())
  bool waits_are_over(std::uint64_t up_to) const;

 private:
  explicit EventPage(std::shared_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {}

  const std::shared_ptr<Mapping> mapping_;
  std::unique_ptr<RegisteredPages> registered_;  // goes first
  std::atomic<std::uint64_t> last_wait_{0};      // of StreamWaits
};

}  // namespace memlease::internal
