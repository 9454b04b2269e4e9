#include "bench/environment.h"

#include <sched.h>
#include <time.h>
#include <x86intrin.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace memlease::bench {
namespace {

std::uint64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

double measure_tick() {
  const std::uint64_t start_ns = monotonic_ns();
  const std::uint64_t start = ticks();
  while (monotonic_ns() < start_ns + 20'000'000) {
  }
  const std::uint64_t end_ns = monotonic_ns();
  return static_cast<double>(end_ns - start_ns) / static_cast<double>(ticks() - start);
}

}  // namespace

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      options.quick = true;
    } else if (argv[i][0] == '/' && options.directory.empty()) {
      options.directory = argv[i];
    } else {
      options.directory.clear();
      break;
    }
  }
  if (options.directory.empty()) {
    std::fprintf(stderr,
                 "usage: %s DIRECTORY [--quick]\n"
                 "DIRECTORY (absolute): of a memleased that serves nobody else; ./dev bench starts "
                 "one.\n",
                 argv[0]);
    std::exit(2);
  }
  return options;
}

std::vector<int> cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> found;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) found.push_back(cpu);
  }
  return found;
}

void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    std::perror("bench: pinning to a CPU failed");
    std::exit(1);
  }
}

std::uint64_t ticks() {
  unsigned cpu;
  const std::uint64_t now = __rdtscp(&cpu);
  _mm_lfence();
  return now;
}

std::uint64_t thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

double ns_per_tick() {
  static const double ns = measure_tick();
  return ns;
}

Client connect(const Options& options) {
  ConnectOptions how;
  how.directory = options.directory;
  how.start = false;
  return Client::connect(how);
}

CreateOptions bytes_array(const std::string& name, std::int64_t size_bytes) {
  CreateOptions options;
  options.name = name;
  options.dtype = dtype_of<std::uint8_t>();
  options.shape = {size_bytes};
  return options;
}

}  // namespace memlease::bench
