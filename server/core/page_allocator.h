// Rows and records in page files of one kind and one access domain: boards, takeover pages, or one
// session's pages. Grows by whole files; a file goes when nothing is in it. Not thread-safe.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "server/core/arena.h"
#include "server/core/file_table.h"
#include "server/core/page_source.h"
#include "wire/ids.h"

namespace memlease::server {

class PageAllocator {
 public:
  struct Kind {
    wire::FileKind kind = wire::FileKind::kBoard;
    std::uint64_t file_bytes = 0;
    AccessDomain domain;
    wire::SessionId owner{0};  // 0: the daemon writes these pages
    uid_t payer = 0;           // whom the files are charged to
    // At the beginning of each file: for the owner, not handed out. Whole units.
    std::uint64_t header_bytes = 0;
  };

  PageAllocator(FileTable& files, PageSource& source, const Kind& kind);
  // Lets the files go, whatever is in them.
  ~PageAllocator();
  PageAllocator(const PageAllocator&) = delete;
  PageAllocator& operator=(const PageAllocator&) = delete;

  // A range of whole 64-byte units, in a new file if there is no room. Its bytes are zero if they
  // are the daemon's, but for events, whose counts only grow. kOutOfMemory, or what PageSource and
  // FileTable say; nothing has changed then.
  absl::StatusOr<wire::FileRange> allocate(std::uint32_t units);
  // `at` is what allocate() has returned for as many units, and not free yet. The last range of a
  // file takes the file with it.
  void free(wire::FileRange at, std::uint32_t units);
  bool empty() const { return pages_.empty(); }
  std::size_t page_count() const { return pages_.size(); }
  std::vector<wire::FileId> files() const;

 private:
  friend class Auditor;  // server/core/audit.h
  struct Page {
    wire::FileId file{0};
    Arena arena;
  };

  FileTable& files_;
  PageSource& source_;
  const Kind kind_;
  std::vector<Page> pages_;
};

}  // namespace memlease::server
