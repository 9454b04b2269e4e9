// What sessions have of arrays: who opens one is a member until it has taken its last open back.
// Called by Broker, which knows who may. Not thread-safe.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/core/array.h"
#include "server/core/catalog.h"
#include "server/core/clock.h"
#include "server/core/file_table.h"
#include "server/core/reclaimer.h"
#include "server/core/session.h"
#include "wire/ids.h"

namespace memlease::server {

class Memberships {
 public:
  Memberships(const Catalog& catalog, FileTable& files, Quota& quota, Reclaimer& reclaimer,
              const Clock& clock)
      : catalog_(catalog), files_(files), quota_(quota), reclaimer_(reclaimer), clock_(clock) {}

  // One open more; with the first one a member. It is charged whatever the limit: whoever opens
  // asks Account::may_spend() first.
  void join(Session& session, Array& array);
  // The array and what the session has of it; kNotFound unless the session opened it.
  struct Member {
    Array* array = nullptr;
    Membership* membership = nullptr;
  };
  absl::StatusOr<Member> find(Session& session, wire::ArrayId id) const;
  // As Broker has them.
  absl::Status leave(Session& session, wire::ArrayId id, std::uint32_t opens);
  absl::Status leave_once(Session& session, wire::ArrayId id, std::uint32_t opens,
                          std::uint64_t number);
  // Does the session hold a slot or write now, of any array?
  bool in_use(const Session& session) const;
  // What the array is, or was: who has no row of it does not outlive it.
  RowClass class_of(wire::ArrayId id, const Membership& of_it) const;
  // Is all that the session has open this user's?
  bool all_are_of(Session& session, uid_t uid) const;
  // The bytes of these arrays.
  std::uint64_t bytes_in_use(const Session& session) const;

 private:
  // Null: it holds and writes nothing of it.
  const Array* array_in_use(const Session& session, wire::ArrayId id,
                            const Membership& of_it) const;

  const Catalog& catalog_;
  FileTable& files_;
  Quota& quota_;
  Reclaimer& reclaimer_;
  const Clock& clock_;
};

}  // namespace memlease::server
