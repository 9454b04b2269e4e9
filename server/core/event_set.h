// The events of an array's slots, or of a reader's row, one a slot: words that their recorders
// share (wire/event_words.h). An event of a slot's writer is recorded when a version is published
// or dropped there; an event of a reader's row when that reader lets go of the slot. Nobody records
// either again before all who must wait for it have asked for that: the slot is taken by a writer
// that nobody reads from, or held by that reader.
//
// Whoever has made it keeps the words where they are. Not thread-safe.
#pragma once

#include <cstdint>

#include "server/core/device_backend.h"
#include "server/core/file_table.h"
#include "wire/event_words.h"
#include "wire/ids.h"

namespace memlease::server {

class EventSet {
 public:
  // None, of a device whose work is over when a call returns: all is complete.
  EventSet() = default;
  // `at`: where they stand in a page file, which then is never revoked: whoever waits for a word of
  // it on a device goes on doing so when the file has gone.
  EventSet(DeviceBackend& backend, FileTable& files, wire::FileRange at, std::uint32_t slots);

  bool empty() const { return slots_ == 0; }
  wire::FileRange at() const { return at_; }
  bool complete(std::uint32_t slot) const;
  // Bit s: that of slot s is not.
  std::uint64_t incomplete() const;
  bool all_complete() const { return incomplete() == 0; }
  // Has the recorder's device failed before it was complete?
  bool any_lost() const;
  // After the exit of the process that recorded them, which ends its work on the device, or when
  // its device has failed: whoever waits for a record that can never be complete now goes on, and
  // so does who waits from now on.
  void release(const FileTable& files) const;

 private:
  DeviceBackend* backend_ = nullptr;
  wire::FileRange at_;
  const wire::EventWords* words_ = nullptr;
  std::uint32_t slots_ = 0;
};

}  // namespace memlease::server
