// The events of one row of the slot protocol, or of an array's slots: one a slot, those of added
// slots from their first use. They stay when such a slot goes, since its number comes back. An
// event of a
// slot's writer is recorded when a version is published or dropped there; an event of a reader's
// row when that reader lets go of the slot. Nobody records either again before all who must wait
// for it have asked for that: the slot is taken by a writer that nobody reads from, or held by that
// reader.
//
// Shared between their owner and the sessions that have them open; the last one has them disposed
// of. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/device_backend.h"
#include "server/core/file_table.h"

namespace memlease::server {

class EventSet {
 public:
  // Empty where the device has no events, and where it has none left: then whoever would record one
  // has its host wait for that work before it lets go, so that all is complete.
  // Fails where the device has failed. `files` takes the events at the end, and outlives them.
  static absl::StatusOr<std::shared_ptr<EventSet>> create(DeviceBackend& backend,
                                                          const FileTable& files,
                                                          std::uint32_t slots);

  bool empty() const { return events_.empty(); }
  // Why there are none on a device that has events; else OK.
  const absl::Status& shortage() const { return shortage_; }
  // Of the regular slots.
  std::vector<wire::DeviceHandle> handles() const;

  // One for an added slot, unless it has one or the set is empty. kOutOfMemory: the device has none
  // left; other errors: it has failed.
  absl::Status add(std::uint32_t slot);
  // The same, but where the device has none left the slot does without for life, as somebody may
  // have been told so.
  absl::Status add_for_life(std::uint32_t slot);
  // nullopt: it does without.
  std::optional<wire::DeviceHandle> handle(std::uint32_t slot) const;

  // Without events all is complete.
  bool complete(std::uint32_t slot) const { return !has(slot) || events_[slot]->complete(); }
  bool all_complete() const;
  // After the exit of the process that recorded them, which ends its work on the device: whoever
  // waits for a record that can never be complete now goes on, and so does who waits from now on.
  void re_record();

 private:
  bool has(std::uint32_t slot) const { return slot < events_.size() && events_[slot] != nullptr; }

  DeviceBackend* backend_ = nullptr;
  std::uint32_t regular_ = 0;
  std::vector<std::unique_ptr<SharedEvent>> events_;  // null: of an added slot that has none
  std::uint64_t without_ = 0;                         // bit per slot: for life
  absl::Status shortage_;
};

}  // namespace memlease::server
