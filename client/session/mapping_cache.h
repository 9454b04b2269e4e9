// Shared files as mapped in this process: each once, however many arrays stand in it, for as long
// as anybody uses it; segments, once written, a second time for that. Thread-safe; files are
// fetched and mapped without the lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "client/session/file_source.h"
#include "client/session/mapped_ranges.h"
#include "client/session/peer_windows.h"
#include "wire/ids.h"
#include "wire/mutex.h"

namespace memlease::internal {

// A mapped file. Not inherited over fork(2): the addresses of arrays' bytes stay out of use in the
// child, so that a view of the parent's faults there whatever the child maps. A segment has ranges
// of addresses, the pages of another process stand in a window.
class Mapping {
 public:
  static absl::StatusOr<std::shared_ptr<Mapping>> map(SharedFile file,
                                                      const std::shared_ptr<PeerWindows>& windows);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  // Of a segment: as ranges()->data().
  std::byte* data() const { return ranges_ == nullptr ? data_ : ranges_->data(); }
  std::uint64_t size_bytes() const { return size_bytes_; }
  bool writable() const { return writable_; }
  wire::FileKind kind() const { return kind_; }
  // Of a segment, else nullptr. Views may keep them longer than this lives.
  const std::shared_ptr<MappedRanges>& ranges() const { return ranges_; }
  // Is the range inside, at a multiple of alignment?
  bool contains(std::uint64_t offset, std::uint64_t size_bytes, std::uint64_t alignment) const;

 private:
  Mapping(std::byte* data, SharedFile file, std::shared_ptr<PeerWindows> windows);
  std::byte* const data_;
  const std::uint64_t size_bytes_;
  const wire::FileKind kind_;
  const bool writable_;
  const std::uint32_t fork_generation_;
  const std::shared_ptr<PeerWindows> windows_;  // nullptr: in none
  const std::shared_ptr<MappedRanges> ranges_;  // nullptr: nobody has views of it
};

class MappingCache {
 public:
  explicit MappingCache(FileSource& source);

  // Asks the daemon for the file unless it is mapped; a wait for that ends with what `interrupt`
  // says. kInternal if it is of another kind, and kDenied if it is to be written and may not. Other
  // kinds than segments know no access but their own.
  absl::StatusOr<std::shared_ptr<Mapping>> get(wire::FileId file, wire::FileKind kind,
                                               InterruptCheck interrupt,
                                               Access access = Access::kRead);

  // What get() would ask the daemon for one by one, by one request, and wire::kMaxFetchedFiles at
  // most: get() finds the files while the caller keeps what this returns. Those that are not to be
  // had are left out, and with the first of them all: get() says why. What is there already, as it
  // came with an answer, is taken from there, and the rest of that closed.
  absl::StatusOr<std::vector<std::shared_ptr<Mapping>>> bring(std::span<const WantedFile> files,
                                                              InterruptCheck interrupt,
                                                              FilesById there = {});

 private:
  // A file with an access.
  using Key = std::uint64_t;
  static Key key_of(const WantedFile& wanted) {
    return Key{to_int(wanted.file)} * 2 + (wanted.access == Access::kWrite ? 1 : 0);
  }
  std::shared_ptr<Mapping> find(Key key);
  std::shared_ptr<Mapping> publish(Key key, std::shared_ptr<Mapping> mapped);
  absl::StatusOr<std::shared_ptr<Mapping>> map(const WantedFile& wanted, SharedFile shared);

  FileSource& source_;
  const std::shared_ptr<PeerWindows> windows_;
  wire::Mutex mutex_;
  std::unordered_map<Key, std::weak_ptr<Mapping>> mappings_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memlease::internal
