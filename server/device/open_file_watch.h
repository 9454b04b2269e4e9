// Tells when nobody but the daemon has a file any more.
//
// All who have one share an open file that reads it, or one that writes it, and the kernel says
// when an open file goes (inotify(7), IN_CLOSE_WRITE, IN_CLOSE_NOWRITE): that is when nobody has it
// open or mapped any more. A lease tells who can write, too (fcntl(2), F_SETLEASE), but who asks
// for one waits for whoever reads the list of all locks of files (/proc/locks), which may be for as
// long as he likes. Thread-safe.
#pragma once

#include <array>
#include <map>
#include <optional>

#include "wire/mutex.h"
#include "wire/unique_fd.h"

namespace memlease::server {

class OpenFileWatch {
 public:
  enum class Access : bool { kRead, kWrite };

  OpenFileWatch();
  // Of a file of which there is one open file of each kind, or will be, all opened by their paths.
  // Once more before the next one is opened. Negative: the kernel has no watch to give
  // (fs.inotify.max_user_watches, max_user_instances).
  int begin(int fd);
  // Whether that one has gone. Nothing: nobody can tell, as no watch was given, or too many have
  // gone at once.
  std::optional<bool> has_gone(int watch, Access access);
  // No watch is no error. Until then the file's memory stays.
  void end(int watch);

 private:
  using Gone = std::array<std::optional<bool>, 2>;  // by Access
  void read_news() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const wire::UniqueFd inotify_;
  wire::Mutex mutex_;
  std::map<int, Gone> has_gone_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memlease::server
