// What the daemon does while nobody wants anything of it: processor time and wake-ups in some
// seconds, with no session, with 50 idle ones, with 50 that wait for a name, and with 50 that wait
// for a version; and how often these wake up.

#include <memlease/memlease.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "bench/daemon_process.h"
#include "bench/environment.h"
#include "bench/process.h"
#include "bench/report.h"
#include "fmt/format.h"

namespace {

using namespace memlease;
using namespace memlease::bench;

constexpr int kSessions = 50;

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

std::map<std::string, long> sleeps(const Processes& processes) {
  std::map<std::string, long> counts;
  for (int i = 0; i < kSessions; ++i) counts.merge(sleeps(processes.pid(i)));
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
  const double seconds = options.pick(10.0, 3.0, 0.1);
  const auto wait = [](double s) { usleep(static_cast<useconds_t>(s * 1e6)); };
  const pid_t pid = daemon_pid(options.directory);
  Report report("bench_idle");
  const auto watch = [&](const std::string& who, const Processes* waiting = nullptr) {
    wait(options.pick(10.0, 2.0, 0.1));  // what connecting left to do is done
    const auto sleeps_before = sleeps(pid);
    const auto clients_before = waiting == nullptr ? sleeps_before : sleeps(*waiting);
    const double cpu_before = cpu_ns(pid);
    wait(seconds);
    report.add("cpu." + who, cpu_ns(pid) - cpu_before);
    report.note(fmt::format("wake-ups with {}", who),
                fmt::format("{} in {} s", wakeups(sleeps_before, sleeps(pid)), seconds));
    if (waiting == nullptr) return;
    report.note(fmt::format("wake-ups of {}", who),
                fmt::format("{} in {} s", wakeups(clients_before, sleeps(*waiting)), seconds));
  };
  watch("0_sessions");
  SharedPage& page = new_shared_page(kSessions + 1);
  const Processes idle(kSessions, [&](int index) {
    const Client client = connect(options);
    const Array array = client.create(bytes_array(fmt::format("bench/idle/{}", index), 4096));
    array.write().publish();
    array.read().release();
    page.meet();
    page.meet();
    client.wait_for("bench/idle/end", std::chrono::minutes(5)).follow().next().release();
  });
  page.meet();
  watch(fmt::format("{}_sessions", kSessions));
  page.meet();
  watch(fmt::format("{}_waiting", kSessions), &idle);
  const Client client = connect(options);
  const Array end = client.create(bytes_array("bench/idle/end", 64));
  watch(fmt::format("{}_following", kSessions), &idle);
  end.write().publish();
  report.print();
  return 0;
}
