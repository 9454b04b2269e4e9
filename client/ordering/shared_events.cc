#include "client/ordering/shared_events.h"

#include "wire/error.h"
#include "wire/hooks/test_hooks.h"

namespace memlease::internal {

absl::Status SharedEvent::record(Stream stream) {
  auto status = importer_.check_stream(stream);
  return status.ok() ? record_checked(stream) : status;
}

absl::Status SharedEvent::record_joined(Stream stream) {
  if (auto status = importer_.check_stream(stream); !status.ok()) return status;
  const auto joining = importer_.joining_stream();
  if (!joining.ok()) return joining.status();
  absl::Status status;
  if (!leaves_out("join earlier reads")) status = importer_.order(stream, *joining);
  return status.ok() ? record_checked(*joining) : status;
}

// Behind the last record, as a stream that came first would leave the word behind the count. It is
// counted before it is given to the stream: whoever dies in between leaves a record that the daemon
// completes.
absl::Status SharedEvent::record_checked(Stream stream) {
  if (auto status = wait_checked(stream); !status.ok()) return status;
  const std::uint64_t count = recorded() + 1;
  words_.recorded.store(count);
  auto status = importer_.write_word(words_.complete, count, stream);
  if (!status.ok()) {
    words_.recorded.store(count - 1);
    // The stream may wait for the last record, and nothing tells.
    page_.note_wait(importer_, stream);
  }
  return status;
}

// What is recorded behind a wait tells where that is over. Nothing need be behind any other.
absl::Status SharedEvent::wait(Stream stream) const {
  if (is_complete(recorded())) return absl::OkStatus();
  auto status = importer_.check_stream(stream);
  if (status.ok()) status = wait_checked(stream);
  if (status.ok()) page_.note_wait(importer_, stream);
  return status;
}

absl::Status SharedEvent::wait_checked(Stream stream) const {
  const std::uint64_t count = recorded();
  return is_complete(count) ? absl::OkStatus()
                            : importer_.wait_for_word(words_.complete, count, stream);
}

bool SharedEvent::is_complete(std::uint64_t record) const {
  if (words_.complete.load() < record) return false;
  importer_.checker_saw(words_.complete);
  return true;
}

// What was given to a device that has failed is over, but nothing writes that.
absl::StatusOr<bool> SharedEvent::complete(std::uint64_t record) const {
  if (is_complete(record)) return true;
  if (auto status = importer_.check_device(); !status.ok()) return status;
  return false;
}

absl::StatusOr<SharedEvents> SharedEvents::in(std::shared_ptr<EventPage> page, std::uint64_t offset,
                                              std::uint32_t slots, Importer& importer) {
  const Mapping& mapping = page->mapping();
  if (!mapping.contains(offset, slots * sizeof(wire::EventWords), alignof(wire::EventWords))) {
    return wire::defect("events lie outside of their page");
  }
  SharedEvents events;
  events.by_host_ = !page->orders(importer);
  auto* const words = reinterpret_cast<wire::EventWords*>(mapping.data() + offset);
  for (std::uint32_t slot = 0; slot < slots; ++slot) {
    events.events_.emplace_back(importer, words[slot], *page, events.by_host_);
  }
  events.page_ = std::move(page);
  return events;
}

}  // namespace memlease::internal
