#include "server/core/refusals.h"

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "wire/error.h"

namespace memlease::server {

using wire::ErrorCode;
using wire::make_error;

absl::Status shutting_down() {
  return make_error(ErrorCode::kDaemonUnavailable, "the daemon is shutting down",
                    "Connect again once it has been started again.");
}

absl::Status out_of_own_memory() {
  return make_error(ErrorCode::kOutOfMemory,
                    "the daemon gets no memory for anything new; what there is goes on",
                    "Close arrays and end processes that nobody needs, or raise the limit of the "
                    "daemon's memory (MemoryMax=, LimitDATA=, LimitAS=, ulimit), then try again.");
}

absl::Status memory_is_coming_back() {
  return make_error(ErrorCode::kBusy,
                    "the daemon's memory is nearly used up; calls that have too much of it are "
                    "being cut",
                    "Try again in a moment.");
}

absl::Status files_are_going(uid_t uid) {
  return make_error(ErrorCode::kBusy,
                    fmt::format("files of uid {} that have gone are still being closed", uid),
                    "Try again in a moment.");
}

absl::Status no_such_array(const std::string& name, uid_t viewer) {
  return make_error(ErrorCode::kNotFound,
                    fmt::format("there is no array '{}' that uid {} may read", name, viewer),
                    "List what there is: memleasectl ls. Wait for one that is yet to come: "
                    "wait_for(name).");
}

absl::Status no_such_device(std::string_view device, const std::vector<std::string>& known) {
  return make_error(
      ErrorCode::kUnsupported,
      fmt::format("this daemon has no device '{}', but {}", device, fmt::join(known, ", ")),
      "A daemon sees the GPUs that CUDA_VISIBLE_DEVICES, or its container, leave to it.");
}

absl::Status name_is_taken(const Array& by, bool own, bool is_alike) {
  const bool goes_with_it = own && by.kind->lifetime == wire::Lifetime::kSession;
  return make_error(
      ErrorCode::kAlreadyExists,
      fmt::format("the name '{}' is taken{}", by.name,
                  own ? ", by an array that this process itself has created" : ""),
      fmt::format("{}{}.",
                  is_alike ? "Open it, withdraw it, or create with exist_ok"
                           : "It is another array than what was asked for: open it as it is, or "
                             "withdraw it",
                  goes_with_it ? ": it is there until this process ends, also where the client "
                                 "that created it is closed"
                               : ""));
}

absl::Status name_is_anothers(const std::string& name) {
  return make_error(ErrorCode::kAlreadyExists,
                    fmt::format("the name '{}' is taken, by an array that you may not read", name),
                    "Take another name; whose array it is can root, and the daemon's user, see.");
}

absl::Status other_array(const wire::ArraySpec& stands, const wire::ArraySpec& wanted) {
  return make_error(
      ErrorCode::kAlreadyExists,
      fmt::format("'{}' exists as {} on {} with {} slots (max_slots {}), mode {:#o}: not what "
                  "was asked for ({} on {}, {} slots (max_slots {}), mode {:#o}, or another "
                  "layout, lifetime or writer)",
                  stands.name, describe(stands), stands.device, stands.slots, stands.max_slots,
                  stands.mode, describe(wanted), wanted.device, wanted.slots, wanted.max_slots,
                  wanted.mode),
      "Open it as it is, or withdraw it first.");
}

absl::Status of_another_user(const Array& array, uid_t owner) {
  return make_error(
      ErrorCode::kDenied,
      fmt::format("'{}' is an array of uid {}, not of uid {}", array.name, array.domain.uid, owner),
      "Ask its owner, or the operator of this daemon, to withdraw it. Without owner it is opened "
      "whosever it is.");
}

absl::Status cannot_create_for(const std::string& name, uid_t owner, uid_t creator) {
  return make_error(
      ErrorCode::kDenied,
      fmt::format("there is no array '{}', and uid {} cannot create one that belongs to uid {}",
                  name, creator, owner),
      "Wait for the one of that user: wait_for(name), with owner.");
}

absl::Status owner_without_exist_ok() {
  return make_error(ErrorCode::kInvalidArgument,
                    "owner goes with exist_ok: a new array belongs to the user who creates it",
                    "Leave owner out, or give exist_ok, too.");
}

absl::Status has_been_withdrawn(const Array& array) {
  return make_error(ErrorCode::kWithdrawn, fmt::format("'{}' has been withdrawn", array.name),
                    "Create it again.");
}

absl::Status may_not_write_to(const Array& array, uid_t viewer) {
  return make_error(ErrorCode::kDenied,
                    fmt::format("uid {} may read '{}' but not write it (owner {}, mode {:#o})",
                                viewer, array.name, array.domain.uid, array.domain.mode),
                    "Its owner must create it with a mode such as 0660.");
}

absl::Status may_not_withdraw(const Array& array, uid_t viewer) {
  return make_error(ErrorCode::kDenied,
                    fmt::format("uid {} may not withdraw '{}' of uid {} (mode {:#o})", viewer,
                                array.name, array.domain.uid, array.domain.mode),
                    "Ask its owner, or somebody who may write it.");
}

absl::Status not_its_array_any_more() {
  return make_error(ErrorCode::kWithdrawn,
                    "the array has been withdrawn, or the process that created it has ended",
                    "Open its name again if it has been created again.");
}

absl::Status too_many_in_doubt(std::uint64_t departure) {
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("departure {} is {} or more above the oldest without an answer",
                                departure, wire::kDeparturesInDoubt),
                    "Give that one up first (answered_below).");
}

absl::Status still_in_use(const Array& array) {
  return make_error(ErrorCode::kBusy,
                    fmt::format("this session still holds slots of '{}', or a GPU is still at work "
                                "on them for it",
                                array.name),
                    "Release all leases and views first, and wait for the GPU.");
}

absl::Status no_session_to_evict(wire::SessionId id) {
  return make_error(ErrorCode::kNotFound,
                    fmt::format("there is no session {} of yours, nor one that has arrays of yours "
                                "alone",
                                wire::to_int(id)),
                    "List them: memleasectl sessions, memleasectl holders.");
}

}  // namespace memlease::server
