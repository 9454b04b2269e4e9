// An attacker with a session of its own: asks for shared files by guessed numbers, and tries to
// change what it was given for reading alone.
#pragma once

#include <string>
#include <vector>

namespace memlease::testing {

struct Assault {
  int files = 0;                              // that the daemon handed out
  int writable = 0;                           // thereof such that it may write
  std::vector<std::string> ways_that_worked;  // to change one of the others
};
Assault assault_files(const std::string& directory);

}  // namespace memlease::testing
