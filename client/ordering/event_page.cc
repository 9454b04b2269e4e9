#include "client/ordering/event_page.h"

#include <atomic>
#include <utility>

namespace memlease::internal {

std::unique_ptr<EventPage> EventPage::make(std::shared_ptr<Mapping> mapping, Importer& importer) {
  std::unique_ptr<EventPage> page(new EventPage(std::move(mapping)));
  if (!importer.orders_by_words()) return page;
  auto registered = importer.register_pages(page->mapping_->data(), page->mapping_->size_bytes(),
                                            page->mapping_->writable());
  if (registered.ok()) page->registered_ = *std::move(registered);
  return page;
}

// Now, as the stream may have been destroyed when the page is to go. Marks that are reached are
// looked for when there are twice as many as were pending the last time.
void EventPage::note_wait(Importer& importer, Stream stream) {
  auto mark = importer.mark(stream);
  Marks reached;
  const wire::MutexLock lock(mutex_);
  if (waits_.size() >= looks_at_) {
    take_reached(reached);
    looks_at_ = 2 * waits_.size() + 8;
  }
  waits_.push_back(mark.ok() ? *std::move(mark) : nullptr);
}

bool EventPage::waits_are_over() {
  if (fork_generation_ != fork_generation()) return true;  // the parent's
  Marks reached;
  const wire::MutexLock lock(mutex_);
  take_reached(reached);
  return waits_.empty();
}

// In a list, so that who looks for leaks finds them in use.
void EventPage::keep_open(std::unique_ptr<EventPage> page, OpenMemory with) {
  static std::atomic<EventPage*> first{nullptr};
  EventPage* const kept = page.release();
  kept->kept_with_ = std::move(with);
  kept->next_kept_ = first.load();
  while (!first.compare_exchange_weak(kept->next_kept_, kept)) {
  }
}

void EventPage::take_reached(Marks& reached) {
  Marks pending;
  for (auto& mark : waits_) {
    const auto complete = mark == nullptr ? false : mark->complete();
    (!complete.ok() || *complete ? reached : pending).push_back(std::move(mark));
  }
  waits_ = std::move(pending);
}

}  // namespace memlease::internal
