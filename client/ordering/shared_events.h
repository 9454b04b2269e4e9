// The events of an array's slots, or of a reader's row, one a slot, as this process has them: words
// of a page that their recorders share (wire/event_words.h).
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ordering/event_page.h"
#include "client/ordering/importer.h"
#include "wire/event_words.h"

namespace memlease::internal {

// Thread-safe but for the records: one thread at a time. No call waits for the device. Streams are
// refused with kInvalidArgument if they are another device's, or capture a graph: that would store
// the same count each time it runs, and wait for one that has long been there.
class SharedEvent {
 public:
  // `by_host`: hosts wait in place of streams.
  SharedEvent(Importer& importer, wire::EventWords& words, EventPage& page, bool by_host)
      : importer_(importer), words_(words), page_(page), by_host_(by_host) {}

  // Could the page not be registered? Then streams neither record nor wait, but hosts wait for the
  // work in place of a record, and for complete() in place of the streams.
  bool by_host() const { return by_host_; }
  // Behind all that the stream was given before, and behind the last record, for which the stream
  // waits then. After an error nothing has been recorded.
  absl::Status record(Stream stream);
  // As record(), but the stream is not made to wait: one of the library's does.
  absl::Status record_joined(Stream stream);
  // What the stream is given from now on runs behind the last record.
  absl::Status wait(Stream stream) const;
  // The number of the last record; 0: there is none.
  std::uint64_t recorded() const { return words_.recorded.load(); }
  // Of the last record, or of that one; true if there is none. An error is the device's.
  absl::StatusOr<bool> complete() const { return complete(recorded()); }
  absl::StatusOr<bool> complete(std::uint64_t record) const;

  // The device has failed, and nothing that it was given goes on: whoever waits for the last record
  // goes on, too. Of a read that is all; what was written is lost.
  void end_read() { words_.complete.store(recorded()); }
  void lose_version() { words_.complete.store(recorded() | wire::EventWords::kLost); }
  // Is the version lost that the last record is of?
  bool lost() const { return words_.is_lost(); }

 private:
  bool is_complete(std::uint64_t record) const;
  absl::Status record_checked(Stream stream);
  absl::Status wait_checked(Stream stream) const;

  Importer& importer_;
  wire::EventWords& words_;  // of another process's row: not to be written
  EventPage& page_;
  const bool by_host_;
};

class SharedEvents {
 public:
  // None.
  SharedEvents() = default;
  // kInternal: the page has no room for so many there.
  static absl::StatusOr<SharedEvents> in(std::shared_ptr<EventPage> page, std::uint64_t offset,
                                         std::uint32_t slots, Importer& importer);

  bool empty() const { return events_.empty(); }
  std::size_t size() const { return events_.size(); }
  // Do hosts wait in place of streams?
  bool by_host() const { return by_host_; }
  SharedEvent& operator[](std::uint32_t slot) { return events_[slot]; }
  const SharedEvent& operator[](std::uint32_t slot) const { return events_[slot]; }

 private:
  std::shared_ptr<EventPage> page_;
  bool by_host_ = false;
  std::vector<SharedEvent> events_;
};

}  // namespace memlease::internal
