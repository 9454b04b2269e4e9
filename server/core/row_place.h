// Where a row stands in a session's pages, or a record in a page of the daemon's, or that it stands
// nowhere: in half the room of an offset, as there may be millions.
#pragma once

#include <cstdint>

#include "wire/ids.h"
#include "wire/session_pages.h"

namespace memlease::server {

inline wire::RowRef row_ref(wire::FileRange at) {
  return {at.file, static_cast<std::uint32_t>(at.offset / wire::kRowUnitBytes)};
}

class RowPlace {
 public:
  RowPlace() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): the same place
  RowPlace(wire::FileRange at) : ref_(row_ref(at)) {}

  explicit operator bool() const { return ref_.file != wire::FileId{0}; }
  wire::FileRange operator*() const { return {ref_.file, ref_.unit * wire::kRowUnitBytes}; }
  void reset() { ref_ = {}; }

 private:
  wire::RowRef ref_;
};

}  // namespace memlease::server
