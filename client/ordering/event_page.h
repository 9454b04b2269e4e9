// A page of events as this process has it mapped, and registered for its streams if the device can
// do that: then streams write and wait for words there. Destroying it ends both, and may wait for
// the device; no stream may have to look there any more.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "client/ordering/importer.h"
#include "client/session/mapping_cache.h"

namespace memlease::internal {

class EventPage {
 public:
  static std::unique_ptr<EventPage> make(std::shared_ptr<Mapping> mapping, Importer& importer) {
    std::unique_ptr<EventPage> page(new EventPage(std::move(mapping)));
    if (!importer.orders_by_words()) return page;
    auto registered = importer.register_pages(page->mapping_->data(), page->mapping_->size_bytes(),
                                              page->mapping_->writable());
    if (registered.ok()) page->registered_ = *std::move(registered);
    return page;
  }

  const Mapping& mapping() const { return *mapping_; }
  // Else hosts wait in place of streams.
  bool registered() const { return registered_ != nullptr; }

 private:
  explicit EventPage(std::shared_ptr<Mapping> mapping) : mapping_(std::move(mapping)) {}

  const std::shared_ptr<Mapping> mapping_;
  std::unique_ptr<RegisteredPages> registered_;  // goes first
};

}  // namespace memlease::internal
