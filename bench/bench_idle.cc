// What the daemon does while nobody wants anything of it: processor time and wake-ups in some
// seconds, with no session, with 50 idle ones, with 50 that wait for a name, with 50 that wait for
// a version, and with writers that wait for a slot and for another one's write; and how often those
// who wait wake up.

#include <memlease/memlease.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "bench/daemon_process.h"
#include "bench/environment.h"
#include "bench/process.h"
#include "bench/report.h"
#include "bench/wakeups.h"
#include "fmt/format.h"

namespace {

using namespace memlease;
using namespace memlease::bench;

constexpr int kSessions = 50;
constexpr int kWriters = 20;  // that wait for a slot; and as many for a write

std::vector<pid_t> pids_of(const Processes& processes, int first, int last) {
  std::vector<pid_t> pids;
  for (int i = first; i < last; ++i) pids.push_back(processes.pid(i));
  return pids;
}

std::string name_of(int writer) { return fmt::format("bench/idle/slot/{}", writer); }

// Those before kWriters wait for the only slot of an array of their own, which the main process
// reads; the others for the end of a write of the main process's.
void wait_as_writer(const Options& options, SharedPage& page, int index) {
  page.meet();
  const Client client = connect(options);
  std::optional<Array> own;
  if (index < kWriters) {
    CreateOptions one_slot = bytes_array(name_of(index), 64);
    one_slot.slots = 1;
    own = client.create(one_slot);
    own->write().publish();
  }
  page.meet();
  page.meet();
  const Array array = own ? *own : client.open("bench/idle/owned");
  array.write(std::chrono::minutes(5)).publish();
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const double seconds = options.pick(10.0, 3.0, 0.1);
  const auto wait = [](double s) { usleep(static_cast<useconds_t>(s * 1e6)); };
  const pid_t pid = daemon_pid(options.directory);
  Report report("bench_idle");
  const auto watch = [&](const std::string& who, const std::vector<pid_t>& waiting = {}) {
    wait(options.pick(10.0, 2.0, 0.1));  // what connecting left to do is done
    const Wakeups of_daemon({pid});
    const Wakeups of_clients(waiting);
    const double cpu_before = cpu_ns(pid);
    wait(seconds);
    report.add("cpu." + who, cpu_ns(pid) - cpu_before);
    report.note(fmt::format("wake-ups with {}", who),
                fmt::format("{} in {} s", of_daemon.count(), seconds));
    if (waiting.empty()) return;
    const auto count = static_cast<double>(of_clients.count());
    report.add("wakeups." + who, count / seconds / static_cast<double>(waiting.size()));
  };
  SharedPage& writers_page = new_shared_page(2 * kWriters + 1);
  const Processes writers(2 * kWriters,
                          [&](int index) { wait_as_writer(options, writers_page, index); });
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
  watch(fmt::format("{}_waiting", kSessions), pids_of(idle, 0, kSessions));
  const Client client = connect(options);
  const Array end = client.create(bytes_array("bench/idle/end", 64));
  watch(fmt::format("{}_following", kSessions), pids_of(idle, 0, kSessions));
  end.write().publish();
  writers_page.meet();
  const Array owned = client.create(bytes_array("bench/idle/owned", 64));
  WriteLease write = owned.write();
  writers_page.meet();
  std::vector<ReadLease> held;
  for (int i = 0; i < kWriters; ++i) held.push_back(client.open(name_of(i)).read());
  writers_page.meet();
  watch(fmt::format("{}_for_a_slot", kWriters), pids_of(writers, 0, kWriters));
  watch(fmt::format("{}_for_a_write", kWriters), pids_of(writers, kWriters, 2 * kWriters));
  held.clear();
  write.publish();
  report.print();
  return 0;
}
