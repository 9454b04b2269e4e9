// Makes arrays out of memory and pages, and takes them apart again. All or nothing: a create that
// fails leaves no trace. Not thread-safe.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "server/core/array.h"
#include "server/core/device_table.h"
#include "server/core/file_table.h"
#include "server/core/page_allocator.h"
#include "server/core/quota.h"
#include "server/core/segment_pool.h"

namespace memlease::server {

class ArrayStore {
 public:
  ArrayStore(FileTable& files, PageSource& pages, DeviceTable& devices, Quota& quota);

  // The array, or the memory that must be added before this is called again. `spec` is valid and
  // its device is there. Charges domain.uid, also while memory is made: so all that a uid has made
  // at once keeps within its quota. Attributes count there once, for the array that brings them;
  // they are valid, and null = none. kQuotaExceeded, kOutOfMemory.
  using Creation = std::variant<std::unique_ptr<Array>, SegmentPool::Growth>;
  absl::StatusOr<Creation> create(const wire::ArraySpec& spec, const AccessDomain& domain,
                                  SharedAttributes attributes);
  // What has become of the memory; takes the charges back, for the create() that follows at once.
  absl::Status add_memory(const SegmentPool::Growth& growth,
                          absl::StatusOr<std::unique_ptr<SharedMemory>> memory);
  // Nobody holds or writes it any more.
  void destroy(Array& array);

  // The row that its writers' ends leave what they wrote in, unless it is there: before anybody may
  // write. kQuotaExceeded, kOutOfMemory.
  absl::Status make_takeover(Array& array);

  // One more slot, which the board says then; or the memory that must be added before this is
  // called again. Charges the array's owner. kQuotaExceeded, kOutOfMemory.
  absl::StatusOr<std::optional<SegmentPool::Growth>> add_slot(Array& array);
  // Gives the bytes of the last added slot back, which the board does not name any more.
  void remove_slot(Array& array);
  // How many added slots there are, of all arrays.
  std::uint64_t added_slots() const { return added_slots_; }

  // An entry for one more subscriber.
  absl::StatusOr<wire::Word*> free_entry(Array& array);

 private:
  friend class Auditor;  // server/core/audit.h
  struct DomainPages {
    DomainPages(FileTable& files, PageSource& source, const AccessDomain& domain);
    PageAllocator boards;
    PageAllocator takeovers;
    // A row of zeros for all arrays of the domain while nobody has written them, with room for all
    // slots; and how many arrays there are, while one is.
    wire::FileRange unwritten;
    std::uint64_t arrays = 0;
    PageAllocator events;
  };
  DomainPages& pages_of(const AccessDomain& domain);
  // Places for so many slots; the growth that is missing for them, if one is.
  absl::StatusOr<std::optional<SegmentPool::Growth>> place_slots(Array& array, std::size_t slots);
  absl::Status charge(Array& array);
  absl::StatusOr<Charge> charge_slots(const Array& array, std::uint64_t slots);
  absl::Status room_for(std::uint64_t attribute_bytes);
  absl::Status place_records(Array& array);
  absl::Status place_events(Array& array);

  FileTable& files_;
  PageSource& pages_;
  std::uint64_t not_looked_for_bytes_ = 0;  // of attributes
  DeviceTable& devices_;
  Quota& quota_;
  std::uint64_t last_id_ = 0;
  wire::RecentKinds kinds_;
  std::uint64_t added_slots_ = 0;
  // Of arrays whose memory is being made, by device and the growth's number.
  std::map<std::pair<std::string, std::uint64_t>, Charges> growing_;
  absl::flat_hash_map<AccessDomain, std::unique_ptr<DomainPages>> domains_;
};

}  // namespace memlease::server
