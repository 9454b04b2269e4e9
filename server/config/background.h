// --background: the daemon leaves the terminal and its parent, who learns whether it has started.
// Before any thread exists.
#pragma once

#include <optional>
#include <string>

#include "wire/unique_fd.h"

namespace memlease::server {

class Background {
 public:
  // Forks. In the parent: the exit code to end with, once the child serves (0) or has failed (its
  // exit code). In the child: nothing; it goes on in a session of its own, in the root directory,
  // and without what its parent had open beside the standard descriptors: a lock, say, or a pipe.
  std::optional<int> detach();
  // In the child, once it serves: releases the parent, and sends what is logged from now on to
  // <directory>/memleased.log. Returns that path, or "" if the file cannot be opened, and nothing
  // is to be seen any more. Without detach() it does nothing and returns "".
  std::string ready(const std::string& directory);

 private:
  wire::UniqueFd ready_;
};

}  // namespace memlease::server
