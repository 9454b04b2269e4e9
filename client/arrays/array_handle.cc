#include "client/arrays/array_handle.h"

#include <utility>
#include <vector>

#include "client/session/wait_news.h"
#include "wire/error.h"

namespace memlease::internal {

ArrayHandle::ArrayHandle(HandleOwner::Opened opened)
    : first_(std::move(opened)),
      array_(first_.by.array.get()),
      interrupt_check_(first_.by.owner->interrupt_check()),
      strict_(first_.by.owner->strict()) {}

ArrayHandle::~ArrayHandle() {
  Opening* opening = newest_.load();
  if (!opening->ended.load() && !opening->by.array->forked())
    opening->by.array->membership().drop_handle();
  while (opening != &first_) delete std::exchange(opening, opening->before);
}

absl::Status ArrayHandle::use() {
  if (array().forked()) {
    if (auto status = open_in_child(); !status.ok()) return status;
  }
  auto status = array().usable();
  return status.ok() && closed_.load() ? Membership::handle_closed(array().name()) : status;
}

absl::StatusOr<std::uint64_t> ArrayHandle::current_version(InterruptCheck interrupt) {
  if (auto status = use(); !status.ok()) return status;
  if (has_places()) {
    const auto places = this->places(interrupt);
    return places.ok() ? places->current(interrupt) : places.status();
  }
  auto version = array().current_version(interrupt);
  if (version.ok() && array().only_slot_is_empty()) return 0;
  return version;
}

absl::StatusOr<Awaited> ArrayHandle::awaited(std::uint64_t newer_than, InterruptCheck interrupt) {
  const auto gone = [](const absl::Status& status) {
    return wire::code_of(status) == wire::ErrorCode::kWithdrawn;
  };
  auto status = use();
  if (!status.ok() && !gone(status)) return status;
  Awaited awaited{share_array(), newer_than, {}};
  if (gone(status)) return awaited;
  look_anywhere(awaited);
  auto reader = awaited.array->reader(interrupt);
  if (!reader.ok() && !gone(reader.status())) return reader.status();
  if (reader.ok()) awaited.reader = *reader;
  return awaited;
}

absl::StatusOr<int> ArrayHandle::event_fd() {
  const EventDescriptor* const opened = event();
  if (closed_.load() && opened != nullptr && opened->is_open()) return opened->fd();
  auto awaited =
      this->awaited(0, [this] { return array().session().check_interrupt(interrupt_check()); });
  if (!awaited.ok()) return awaited.status();
  return rare_.get().event.get().open(*std::move(awaited));
}

void ArrayHandle::watch_again(std::uint64_t version) {
  EventDescriptor& event = *this->event();
  if (!event.is_open()) return;
  if (auto next = awaited(version, kNoInterrupts); next.ok()) event.taken(*std::move(next));
}

// Several threads may do so at once, and only the first one's opening counts.
absl::Status ArrayHandle::open_in_child() {
  Opening* newest = newest_.load();
  while (newest->by.array->forked()) {
    if (closed_.load()) return Membership::handle_closed(newest->by.array->name());
    auto opened = newest->by.owner->open_again(*newest->by.array, weak_from_this());
    if (!opened.ok()) return opened.status();
    auto opening = std::make_unique<Opening>(*std::move(opened));
    opening->before = newest;
    if (newest_.compare_exchange_strong(newest, opening.get())) {
      newest = opening.release();
    } else {
      opening->by.array->membership().drop_handle();
    }
  }
  interrupt_check_.store(newest->by.owner->interrupt_check(), std::memory_order_relaxed);
  array_.store(newest->by.array.get(), std::memory_order_release);
  if (closed_.load()) {  // close() came first in another thread, and did not see it
    std::vector<Departure> departures;
    end(*newest, departures, kNoInterrupts).IgnoreError();
    newest->by.array->owner().leave(departures, kNoInterrupts).IgnoreError();
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<ArrayHandle>> ArrayHandle::open_replica(const std::string& device,
                                                                       InterruptCheck interrupt) {
  if (auto status = use(); !status.ok()) return status;
  return newest_.load()->by.owner->open_replica(array(), device, interrupt);
}

void ArrayHandle::look_anywhere(Awaited& awaited) {
  if (home() != nullptr) awaited.home = home()->share_array();
  awaited.places =
      [weak = weak_from_this()](InterruptCheck interrupt) -> absl::StatusOr<std::optional<Places>> {
    const auto handle = weak.lock();
    if (handle == nullptr || !handle->ready() || !handle->has_places()) return std::nullopt;
    return handle->places(interrupt);
  };
}

absl::StatusOr<Places> ArrayHandle::places(InterruptCheck interrupt) {
  ArrayHandle& home = this->home() == nullptr ? *this : *this->home();
  if (auto status = home.use(); !status.ok()) return status;
  const std::uint32_t bits = home.array().board().elsewhere.load();
  Opening& opening = *home.newest_.load();
  Places::Arrays others;
  auto status =
      opening.written.get().add_to(others, *opening.by.owner, *opening.by.array, bits, interrupt);
  if (!status.ok()) return status;
  auto here = share_array();
  std::erase(others, here);
  if (&home != this) others.push_back(home.share_array());
  return Places(std::move(here), home.share_array(), std::move(others), bits);
}

absl::Status ArrayHandle::end(Opening& opening, std::vector<Departure>& departures,
                              InterruptCheck interrupt) {
  if (opening.by.array->forked() || opening.ended.exchange(true)) return absl::OkStatus();
  auto interrupted = opening.by.array->close_handle(departures, interrupt);
  opening.written.get().close();
  return interrupted;
}

absl::Status ArrayHandle::close(InterruptCheck interrupt) {
  std::vector<Departure> departures;
  auto interrupted = close(departures, interrupt);
  auto opened_here = share_array();
  // In a forked child, which may have opened the home alone: they are the home's then.
  if (opened_here->forked() && home() != nullptr) opened_here = home()->share_array();
  interrupted.Update(opened_here->owner().leave(departures, interrupt));
  return interrupted;
}

absl::Status ArrayHandle::close(std::vector<Departure>& departures, InterruptCheck interrupt) {
  if (closed_.exchange(true)) return absl::OkStatus();
  wait_news.tell();
  auto interrupted = end(*newest_.load(), departures, interrupt);
  if (EventDescriptor* const event = this->event()) event->set_readable();
  if (home() != nullptr) interrupted.Update(home()->close(departures, interrupt));
  return interrupted;
}

}  // namespace memlease::internal
