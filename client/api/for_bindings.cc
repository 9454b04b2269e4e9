#include <memlease/for_bindings.h>

#include "client/arrays/open_array.h"

namespace memlease::internal {

std::uint64_t ForBindings::publish(WriteLease& lease, Stream stream, bool late_writes) {
  return lease.publish_over(stream, late_writes);
}

bool ForBindings::is_strict(const WriteLease& lease) noexcept { return lease.strict_; }

bool ForBindings::should_warn_of_views(const Array& array) {
  OpenArray& state = array.state();
  return !state.forked() && state.take_view_warning(false);
}

bool ForBindings::should_warn_of_views(const ReadLease& lease) {
  OpenArray* const state = lease.state_;
  return state != nullptr && !state->forked() &&
         state->take_view_warning(state->writer_wants_slot());
}

}  // namespace memlease::internal
