// The daemon's place in the file system: one directory, its lock and its sockets. One daemon a
// directory: whoever holds the lock may bind there, and only that one removes what a dead daemon
// has left. Not thread-safe.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/config/service_environment.h"
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
  // Removes the sockets and the lock file, not the directory; where sockets were passed, only those
  // that it has made itself.
  ~Directory();

  // Sockets that a service manager has bound to the names that listen() will be asked for: all of
  // them, or none at all. kInvalidArgument, naming the socket, if one is not a listening one of
  // this directory, or something else bears its name by now; then they stay the caller's.
  absl::Status use(std::vector<PassedSocket>& sockets);

  // A listening, non-blocking socket: the one that was passed, which has the mode that its maker
  // gave it and stays when the daemon ends, else a new one in place of a dead daemon's; type is
  // SOCK_STREAM or SOCK_SEQPACKET. It never has a wider mode than asked for, and nobody can connect
  // before it has its mode. kBusy if a process has the socket open that bears the name: a service
  // manager's unit of sockets, say. kDenied if it is something else than a socket of this user.
  absl::StatusOr<wire::UniqueFd> listen(const std::string& name, int type, mode_t mode);

  // Takes away the name of a socket, if it is still ours: nobody finds it any more, and whoever has
  // connected stays so. One that was passed stays.
  void remove(const std::string& name);

  // Readable when something has changed in the directory; -1 if the kernel lets nobody watch it.
  int changes() const { return changes_.get(); }
  // Takes the changes, and returns the paths that do not lead to this daemon any more: sockets and
  // lock file, or the directory if another one stands in its place.
  std::vector<std::string> lost();

  // As it was given to lock().
  const std::string& path() const { return path_; }
  bool sockets_passed() const { return sockets_passed_; }

 private:
  struct Entry {
    std::string name;
    dev_t device;
    ino_t inode;
    bool made;  // by this daemon, which removes it at the end
  };
  explicit Directory(std::string path) : path_(std::move(path)) {}
  absl::Status open();
  absl::Status take_lock();
  bool is_there(const Entry& entry) const;
  absl::Status remove_stale(const std::string& name);
  void remove(const Entry& entry);
  absl::Status remember(const std::string& name, bool made = true);
  absl::StatusOr<std::string> name_of(const PassedSocket& socket) const;

  std::string path_;
  wire::UniqueFd fd_;                             // the directory itself: names are resolved in it
  wire::UniqueFd changes_;                        // inotify
  wire::UniqueFd lock_;                           // its open file description holds the lock
  std::vector<Entry> entries_;                    // what others know the daemon by
  std::map<std::string, wire::UniqueFd> passed_;  // those that listen() has not returned yet
  bool sockets_passed_ = false;
};

}  // namespace memlease::server
