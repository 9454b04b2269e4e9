// Rows of the slot protocol in the sessions' own pages: handing them out, and looking at them.
// Not thread-safe.
#pragma once

#include "absl/status/statusor.h"
#include "server/core/array.h"
#include "server/core/device_backend.h"
#include "server/core/file_table.h"
#include "server/core/page_source.h"
#include "server/core/session.h"
#include "wire/ids.h"
#include "wire/session_pages.h"

namespace memlease::server {

inline RowClass row_class_of(const Array& array) {
  return {array.domain, array.kind->device, array.layout().most};
}

class SessionRows {
 public:
  SessionRows(FileTable& files, PageSource& pages) : files_(files), pages_(pages) {}

  // Gives what the session has of this array a row: one that it has given back, else a new one.
  // kOutOfMemory.
  absl::Status take(Session& session, Membership& membership, const Array& array, RowKind kind,
                    DeviceBackend& device);
  // The session has so few pages for rows of this domain that one which it may never use is no
  // loss: 64 KiB and a descriptor or two, however many arrays it opens.
  static bool may_waste(const Session& session, const AccessDomain& domain);
  // The events of the row that the membership has; none: it has no row, or its device no events.
  static EventSet read_events_of(const Session& session, const Membership& membership);
  // What the membership has of them, for another array of as many slots.
  static void give_back(Session& session, Membership& membership);

  const FileTable& files() const { return files_; }
  const wire::ReaderRow& reader(wire::FileRange at) const;
  const wire::WriterRow& writer(wire::FileRange at) const;
  bool is_writing(const Membership& membership) const;
  // Bit s: the member's process holds slot s.
  std::uint64_t held_slots(const Membership& membership, const Array& array) const;
  // Does the session hold a slot of the array now, or write it?
  bool in_use(const Membership& membership, const Array& array) const;

 private:
  absl::StatusOr<wire::FileRange> make(Session& session, const Array& array, RowKind kind,
                                       DeviceBackend& device);

  FileTable& files_;
  PageSource& pages_;
};

}  // namespace memlease::server
