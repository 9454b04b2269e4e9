// Where processes sleep that wait for an array of some name, or for their turn to write one: a page
// of counts that every process may map and the daemon alone writes. What happens changes the count
// that its key falls on, a name or a turn's, and wakes who sleeps there; many keys share a count,
// so who wakes looks again. Nobody who waits calls the daemon in between.
//
// What the page gives away: that something has happened, and nobody can tell what, as many keys
// share a count. Which ones differs from daemon to daemon.
//
// Made when the first process waits; then it stays. Called by Broker. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/core/file_table.h"
#include "server/core/page_source.h"
#include "wire/ids.h"
#include "wire/shared_word.h"

namespace memlease::server {

class NameBoard {
 public:
  NameBoard(FileTable& files, PageSource& pages) : files_(files), pages_(pages) {}

  // The key's count, where it stands and as it is now. kOutOfMemory.
  struct Count {
    wire::FileRange at;
    std::uint32_t count = 0;
  };
  absl::StatusOr<Count> count_of(std::string_view key);
  // An array of this name can be found from now on, or it is that one's turn.
  void happened(std::string_view key);
  // Who waits is to look again, whatever for.
  void wake_all();

 private:
  friend class Auditor;  // server/core/audit.h
  // Several pages, as one alone is not held safely (hold_pages, server/device/).
  static constexpr std::size_t kPageBytes = 8 * 4096;
  static constexpr std::size_t kCounts = kPageBytes / sizeof(wire::HalfWord);
  static std::size_t place_of(std::string_view key);
  absl::Status make_page();

  FileTable& files_;
  PageSource& pages_;
  std::optional<wire::FileId> file_;
  wire::HalfWord* counts_ = nullptr;
};

}  // namespace memlease::server
