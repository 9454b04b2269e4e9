#include "client/arrays/places.h"

#include <algorithm>

#include "wire/error.h"

namespace memlease::internal {

Places::Arrays Places::all() const {
  Arrays all = {here_};
  all.insert(all.end(), others_.begin(), others_.end());
  return all;
}

bool Places::lost(std::uint64_t version) const {
  const auto arrays = all();
  return std::any_of(arrays.begin(), arrays.end(), [&](const auto& array) {
    return is_poisoned(array->board(), array->layout(), version);
  });
}

// A write takes its number from the home's row, or in it, and its place has the version before the
// row's flag is taken back. A replica that was not known then is on the home's board by now.
bool Places::given_up(std::uint64_t version) const {
  const wire::RowRef at = wire::writer_row_of(home_->board().writer.load());
  const wire::WriterRow* const row = home_->writer_row(at);
  return row != nullptr && row->highest_used.load() >= version && row->writing.load() == 0 &&
         are_all();
}

absl::StatusOr<Places::Newest> Places::find_newest(InterruptCheck interrupt) const {
  const auto version_here = here_->current_version(interrupt);
  if (!version_here.ok()) return version_here.status();
  Newest newest{*version_here, nullptr, !here_->only_slot_is_empty()};
  for (const auto& other : others_) {
    const auto version = other->current_version(interrupt);
    // A replica that has been withdrawn alone has nothing that its home has not.
    if (wire::code_of(version.status()) == wire::ErrorCode::kWithdrawn) continue;
    if (!version.ok()) return version.status();
    // Of two that have it, one that has it still, and that this process can read.
    const bool here = newest.place == nullptr;
    const bool nearer = *version == newest.version && !other->only_slot_is_empty() &&
                        (!newest.stands || (!here && !newest.place->reach().ok()));
    if (*version <= newest.version && !nearer) continue;
    newest = {*version, other.get(), !other->only_slot_is_empty()};
  }
  return newest;
}

absl::StatusOr<std::uint64_t> Places::newest(InterruptCheck interrupt) const {
  const auto newest = find_newest(interrupt);
  if (!newest.ok()) return newest.status();
  return newest->version;
}

absl::StatusOr<std::uint64_t> Places::current(InterruptCheck interrupt) const {
  const auto newest = find_newest(interrupt);
  if (!newest.ok()) return newest.status();
  return newest->stands ? newest->version : 0;
}

absl::StatusOr<OpenArray*> Places::place_of_newer(InterruptCheck interrupt) const {
  const auto newest = find_newest(interrupt);
  if (!newest.ok()) return newest.status();
  return newest->place;
}

}  // namespace memlease::internal
