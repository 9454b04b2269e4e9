// What the broker refuses, in words for whoever asked: what is wrong, why, and what to do.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/core/array.h"
#include "server/core/session_host.h"
#include "wire/array_spec.h"
#include "wire/ids.h"

namespace memlease::server {

// To whoever wants something new while the daemon ends. kDaemonUnavailable.
absl::Status shutting_down();
// To the same where the daemon's process gets no memory for itself. kOutOfMemory.
absl::Status out_of_own_memory();

// To whoever connects while what he has let go of takes up the descriptors that are his. kBusy.
absl::Status files_are_going(uid_t uid);
// While the daemon gets memory of its own back. kBusy.
absl::Status memory_is_coming_back();

// Names and arrays.
absl::Status no_such_array(const std::string& name, uid_t viewer);  // kNotFound
absl::Status no_such_device(std::string_view device,
                            const std::vector<std::string>& known);  // kUnsupported
// kAlreadyExists. `own`: by an array of the caller's own process.
absl::Status name_is_taken(const Array& by, bool own, bool is_alike);
// The same, of one that the caller may not read.
absl::Status name_is_anothers(const std::string& name);
// The name stands for an array of another kind. kAlreadyExists.
absl::Status other_array(const wire::ArraySpec& stands, const wire::ArraySpec& wanted);
// Whoever wants an array of `owner` alone. kDenied, but of a wrong call kInvalidArgument.
absl::Status of_another_user(const Array& array, uid_t owner);
absl::Status cannot_create_for(const std::string& name, uid_t owner, uid_t creator);
absl::Status owner_without_exist_ok();
absl::Status has_been_withdrawn(const Array& array);  // kWithdrawn

// What somebody may not do with an array that he sees. kDenied.
absl::Status may_not_write_to(const Array& array, uid_t viewer);
absl::Status may_not_withdraw(const Array& array, uid_t viewer);

// Of a session.
absl::Status not_its_array_any_more();                    // kWithdrawn
absl::Status still_in_use(const Array& array);            // kBusy
absl::Status too_many_in_doubt(std::uint64_t departure);  // kInvalidArgument
absl::Status no_session_to_evict(wire::SessionId id);     // kNotFound

}  // namespace memlease::server
