// What has happened since the daemon started, as counts that only grow: for the metrics. Part of it
// stands in pages that clients write. That part is added up when somebody looks, and once more
// before a page or an array goes, so that nothing is counted twice and no count goes back. A client
// that lies about its own counts makes these wrong, and nothing else. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "server/core/array.h"
#include "server/core/file_table.h"
#include "server/core/session.h"
#include "wire/session_counts.h"

namespace memlease::server {

struct Reclaims {
  std::uint64_t arrays = 0;
  std::uint64_t bytes = 0;
};

struct Totals {
  std::uint64_t sessions_opened = 0;
  std::uint64_t sessions_evicted = 0;
  std::uint64_t arrays_created = 0;
  std::uint64_t slots_added = 0;
  std::uint64_t versions = 0;  // the numbers up to each array's current version
  std::uint64_t empty_writes = 0;
  std::uint64_t copied_versions = 0;  // between the places of an array
  std::uint64_t copied_bytes = 0;     // theirs
  // Of processes that have exited, by reason; those that there can be are in it from the start.
  std::map<std::string, Reclaims, std::less<>> reclaims = {
      {"created it", {}}, {"held a slot", {}}, {"was its writer", {}}, {"was writing", {}}};
  wire::SessionSums sessions;
};

class Tally {
 public:
  explicit Tally(const FileTable& files) : files_(files) {}

  void session_opened() { ++totals_.sessions_opened; }
  void session_evicted() { ++totals_.sessions_evicted; }
  void array_created() { ++totals_.arrays_created; }
  void slots_added(std::uint64_t count) { totals_.slots_added += count; }
  void reclaimed(std::string_view reason, std::uint64_t bytes);

  // Adds what has come since the last look: `row` is the one that counts for the array.
  void look(Array& array, const wire::WriterRow& row);
  void look(Session& session);

  // As of the last looks.
  const Totals& totals() const { return totals_; }

 private:
  const FileTable& files_;
  Totals totals_;
};

}  // namespace memlease::server
