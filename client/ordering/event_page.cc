#include "client/ordering/event_page.h"

#include <utility>

#include "client/ordering/stream_waits.h"

namespace memlease::internal {

std::unique_ptr<EventPage> EventPage::make(std::shared_ptr<Mapping> mapping, Importer& importer) {
  std::unique_ptr<EventPage> page(new EventPage(std::move(mapping)));
  if (!importer.orders_by_words()) return page;
  auto registered = importer.register_pages(page->mapping_->data(), page->mapping_->size_bytes(),
                                            page->mapping_->writable());
  if (registered.ok()) page->registered_ = *std::move(registered);
  return page;
}

// Now, as the stream may have been destroyed when the page is to go.
void EventPage::note_wait(Importer& importer, Stream stream) {
  const std::uint64_t wait = StreamWaits::note(importer, stream);
  std::uint64_t last = last_wait_.load();
  while (last < wait && !last_wait_.compare_exchange_weak(last, wait)) {
  }
}

bool EventPage::waits_are_over(std::uint64_t up_to) const { return last_wait_.load() <= up_to; }

}  // namespace memlease::internal
