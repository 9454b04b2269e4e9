// The daemon's place in the file system: one directory, its lock and its sockets. One daemon a
// directory: whoever holds the lock may bind there, and only that one removes what a dead daemon
// has left. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "wire/unique_fd.h"

namespace memlease::server {

class Directory {
 public:
  // Makes the directory (mode 0700; its parent must be there) and locks it. kDenied if others than
  // the owner could change it, or the owner is neither this user nor root; kBusy, naming the
  // holder, if another daemon has the lock.
  static absl::StatusOr<Directory> lock(const std::string& path);

  Directory(Directory&&) = default;
  Directory& operator=(Directory&&) = delete;
  // Removes the sockets and the lock file, not the directory.
  ~Directory();

  // A listening, non-blocking socket in place of a dead daemon's; type is SOCK_STREAM or
  // SOCK_SEQPACKET. It never has a wider mode than asked for, and nobody can connect before it has
  // its mode. kDenied if something else than a socket of this user bears the name.
  absl::StatusOr<wire::UniqueFd> listen(const std::string& name, int type, mode_t mode);

  const std::string& path() const { return path_; }

 private:
  struct Entry {
    std::string name;
    dev_t device;
    ino_t inode;
  };
  explicit Directory(std::string path) : path_(std::move(path)) {}
  absl::Status open();
  absl::Status take_lock();
  absl::Status remove_stale(const std::string& name);
  absl::Status remember(const std::string& name);

  std::string path_;
  wire::UniqueFd fd_;           // the directory itself: names are resolved in it
  wire::UniqueFd lock_;         // its open file description holds the lock
  std::vector<Entry> entries_;  // what to remove at the end
};

}  // namespace memlease::server
