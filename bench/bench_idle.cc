// What the daemon does while nobody wants anything of it: processor time and wake-ups in some
// seconds, with no session and with 50 idle ones.

#include <memlease/memlease.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "bench/environment.h"
#include "bench/process.h"
#include "bench/report.h"
#include "fmt/format.h"

namespace {

using namespace memlease;
using namespace memlease::bench;

constexpr int kSessions = 50;

// Who listens in the directory.
pid_t daemon_pid(const std::string& directory) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (directory + "/control.sock").c_str(),
               sizeof address.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ucred peer{};
  socklen_t length = sizeof peer;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) {
    std::perror("bench: asking who listens");
    std::exit(1);
  }
  close(fd);
  return peer.pid;
}

// Processor time of all its threads, ended ones too.
double cpu_ns(pid_t pid) {
  clockid_t clock;
  timespec time{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) != 0) {
    std::fprintf(stderr, "bench: the daemon, process %d, has gone\n", pid);
    std::exit(1);
  }
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

// How often each of its threads went to sleep so far.
std::map<std::string, long> sleeps(pid_t pid) {
  std::map<std::string, long> counts;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid))) {
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("voluntary_ctxt_switches:")) continue;
      counts[task.path().filename()] = std::stol(line.substr(24));
    }
  }
  return counts;
}

// A thread that has ended meanwhile was awake once for that.
long wakeups(const std::map<std::string, long>& before, const std::map<std::string, long>& after) {
  long sum = 0;
  for (const auto& [task, count] : after) {
    const auto known = before.find(task);
    sum += known == before.end() ? count : count - known->second;
  }
  for (const auto& [task, count] : before) sum += after.contains(task) ? 0 : 1;
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const unsigned seconds = options.quick ? 3 : 10;
  const pid_t pid = daemon_pid(options.directory);
  Report report("bench_idle");
  const auto watch = [&](int sessions) {
    sleep(options.quick ? 2 : 10);  // what connecting left to do is done
    const auto sleeps_before = sleeps(pid);
    const double cpu_before = cpu_ns(pid);
    sleep(seconds);
    report.add(fmt::format("cpu.{}_sessions", sessions), cpu_ns(pid) - cpu_before);
    report.note(fmt::format("wake-ups with {} sessions", sessions),
                fmt::format("{} in {} s", wakeups(sleeps_before, sleeps(pid)), seconds));
  };
  watch(0);
  SharedPage& page = new_shared_page(kSessions + 1);
  const Processes idle(kSessions, [&](int index) {
    // Not all at once: the daemon takes a number of handshakes per user at a time.
    usleep(static_cast<useconds_t>(index) * 20'000);
    const Client client = connect(options);
    const Array array = client.create(bytes_array(fmt::format("bench/idle/{}", index), 4096));
    array.write().publish();
    array.read().release();
    page.meet();
    page.meet();
  });
  page.meet();
  watch(kSessions);
  page.meet();
  report.print();
  return 0;
}
