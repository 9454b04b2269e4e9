#include "bench/environment.h"

#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace memlease::bench {

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      options.effort = Effort::kQuick;
    } else if (std::strcmp(argv[i], "--tiny") == 0) {
      options.effort = Effort::kTiny;
    } else if (argv[i][0] == '/' && options.directory.empty()) {
      options.directory = argv[i];
    } else {
      options.directory.clear();
      break;
    }
  }
  if (options.directory.empty()) {
    std::fprintf(stderr,
                 "usage: %s DIRECTORY [--quick|--tiny]\n"
                 "DIRECTORY (absolute): of a memleased that serves nobody else; ./dev bench starts "
                 "one.\n",
                 argv[0]);
    std::exit(2);
  }
  options.blocks = options.pick(5, 5, 2);
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
  require(sched_setaffinity(0, sizeof set, &set) == 0, "bench: pinning to a CPU");
}

void require(bool done, const char* what) {
  if (done) return;
  std::perror(what);
  std::_Exit(1);
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
