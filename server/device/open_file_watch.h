// Tells when nobody can write a file any more.
//
// All who may write one share an open file, and the kernel says when an open file goes that could
// write (inotify(7), IN_CLOSE_WRITE): that is when nobody has it open or mapped any more. A lease
// tells that, too (fcntl(2), F_SETLEASE), but who asks for one waits for whoever reads the list of
// all locks of files (/proc/locks), which may be for as long as he likes. Thread-safe.
#pragma once

#include <map>
#include <optional>

#include "wire/mutex.h"
#include "wire/unique_fd.h"

namespace memlease::server {

class OpenFileWatch {
 public:
  OpenFileWatch();
  // Of a file's one open file that can write, opened by its path, or of the next one after that has
  // gone. Negative: the kernel has no watch to give (fs.inotify.max_user_watches,
  // max_user_instances).
  int begin(int fd);
  // Whether it has gone. Nothing: nobody can tell, as no watch was given, or too many have gone at
  // once.
  std::optional<bool> has_gone(int watch);
  // No watch is no error.
  void end(int watch);

 private:
  void read_news() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const wire::UniqueFd inotify_;
  wire::Mutex mutex_;
  std::map<int, std::optional<bool>> has_gone_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace memlease::server
