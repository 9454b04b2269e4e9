// The command line that every benchmark program takes, and its way to the daemon.
#pragma once

#include <memlease/client.h>

#include <cstdint>
#include <string>
#include <vector>

namespace memlease::bench {

// kTiny measures nothing: it shows in no time that the program works.
enum class Effort { kFull, kQuick, kTiny };

struct Options {
  std::string directory;  // of a daemon that serves nobody else
  Effort effort = Effort::kFull;
  int blocks = 5;

  template <typename T>
  T pick(const T& full, const T& quick, const T& tiny) const {
    return effort == Effort::kFull ? full : effort == Effort::kQuick ? quick : tiny;
  }
};

// PROGRAM DIRECTORY [--quick|--tiny]; ends the program with a usage text if it is something else.
Options parse(int argc, char** argv);

// CPUs that this process may use.
std::vector<int> cpus();
// Makes the calling thread stay on one of them.
void pin(int cpu);

// Ends the program with what errno says.
void require(bool done, const char* what);

Client connect(const Options& options);
// An array of bytes, which the calling process can write.
CreateOptions bytes_array(const std::string& name, std::int64_t size_bytes);

}  // namespace memlease::bench
