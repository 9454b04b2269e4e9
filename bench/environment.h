// The command line that every benchmark program takes, and what the machine offers.
#pragma once

#include <memlease/client.h>

#include <cstdint>
#include <string>
#include <vector>

namespace memlease::bench {

struct Options {
  std::string directory;  // of a daemon that serves nobody else
  int blocks = 5;
  bool quick = false;
};

// PROGRAM DIRECTORY [--quick]; ends the program with a usage text if it is something else.
Options parse(int argc, char** argv);

// CPUs that this process may use.
std::vector<int> cpus();
// Makes the calling thread stay on one of them.
void pin(int cpu);

// Time by the processor's counter, which costs less than the clock's call and is the same on all
// CPUs. Ordered against what stands around it.
std::uint64_t ticks();
// Processor time of the calling thread: for loops that wait for nobody, as it leaves out what else
// the machine does meanwhile.
std::uint64_t thread_ns();
// Nanoseconds of one tick, measured at the first call (20 ms).
double ns_per_tick();

Client connect(const Options& options);
// An array of bytes, which the calling process can write.
CreateOptions bytes_array(const std::string& name, std::int64_t size_bytes);

}  // namespace memlease::bench
