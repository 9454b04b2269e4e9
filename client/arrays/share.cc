#include "client/arrays/share.h"

#include <string_view>
#include <vector>

#include "client/slots/slot_reader.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "wire/error.h"

namespace memlease::internal {

absl::Status too_many_held(OpenArray& array, std::uint32_t most) {
  const std::vector<std::uint64_t> held = array.reader_if_subscribed()->held_versions();
  const std::string_view how_many = held.size() > most ? "more" : "as many";
  return wire::make_error(
      wire::ErrorCode::kTooManyHeld,
      fmt::format("this process holds {} versions of '{}' {} it may, {}, by leases and views: {}",
                  how_many, array.name(), how_many == "more" ? "than" : "as", most,
                  fmt::join(held, ", ")),
      fmt::format(
          "Release leases, delete views or copy what is to stay; in Python, and in notebooks, "
          "memlease.release_views(array) does so. A process's share is "
          "(max_slots - 2) / (3 x processes that have opened it by its name, read it or made views "
          "of it), two at least, "
          "and max_slots is {}.",
          array.kind().max_slots));
}

absl::Status write_within_share(OpenArray& array) {
  SlotReader* const reader = array.reader_if_subscribed();
  if (reader == nullptr || !reader->views_exceed_share()) return absl::OkStatus();
  return too_many_held(array, reader->most_kept());
}

}  // namespace memlease::internal
