#include "bench/daemon_process.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "bench/environment.h"
#include "fmt/format.h"

namespace memlease::bench {
namespace {

double kilobytes_in(const std::string& path, const char* key) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    double kilobytes = 0;
    if (word == key && file >> kilobytes) return kilobytes * 1024;
  }
  std::fprintf(stderr, "bench: %s has no %s\n", path.c_str(), key);
  std::exit(1);
}

}  // namespace

pid_t daemon_pid(const std::string& directory) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (directory + "/control.sock").c_str(),
               sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ucred peer{};
  socklen_t length = sizeof peer;
  require(fd >= 0 &&
              ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
              getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0,
          "bench: asking who listens");
  close(fd);
  return peer.pid;
}

double cpu_ns(pid_t pid) {
  clockid_t clock;
  timespec time{};
  require(clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &time) == 0,
          "bench: the daemon's processor time");
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

double resident_bytes(pid_t pid) {
  return kilobytes_in(fmt::format("/proc/{}/status", pid), "VmRSS:");
}

double shared_bytes() { return kilobytes_in("/proc/meminfo", "Shmem:"); }

}  // namespace memlease::bench
