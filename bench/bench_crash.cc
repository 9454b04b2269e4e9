// From SIGKILL of a process in the middle of a write, with much or little memory mapped and
// touched, to: the next writer has ownership (it was waiting for it); the memory of what the dead
// process had created is free, or ready to be used again. Against the kernel's own notice, the
// pidfd's.

#include <memlease/memlease.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <map>
#include <thread>

#include "bench/daemon_process.h"
#include "bench/environment.h"
#include "bench/payload.h"
#include "bench/process.h"
#include "bench/report.h"
#include "bench/timing.h"
#include "fmt/format.h"

namespace {

using namespace memlease;
using namespace memlease::bench;

constexpr const char* kField = "bench/crash/field";
constexpr const char* kVictims = "bench/crash/own";

struct Size {
  const char* name;
  std::int64_t bytes;
  int kills;  // in a block
};

// Creates and fills an array of its own, begins to write the common one, and waits for its end.
void be_killed(const Options& options, std::int64_t bytes, SharedPage& page) {
  const Client client = connect(options);
  CreateOptions own = bytes_array(kVictims, std::max<std::int64_t>(bytes, 1));
  own.slots = 1;
  const Array mine = client.create(own);
  WriteLease filling = mine.write();
  fill({static_cast<std::uint64_t*>(filling.data()), static_cast<std::size_t>(bytes) / 8}, 1);
  filling.publish();
  [[maybe_unused]] const WriteLease half = client.open(kField).write();
  page.ping.store(static_cast<std::uint64_t>(getpid()));  // not at the barrier: one dies there
  for (;;) pause();
}

// Small arrays' memory is kept for the next one, and so is free with the name. Large ones' is given
// back to the system.
std::uint64_t wait_until_free(std::int64_t bytes, double shared_before) {
  while (bytes >= (1 << 30) && shared_bytes() > shared_before - 0.95 * static_cast<double>(bytes)) {
    usleep(100);
  }
  return ticks();
}

struct Moments {
  double notice_ns;
  double waiter_ns;
  double unnamed_ns;
  double freed_ns;
};

Moments kill_one(const Client& client, const Array& field, pid_t victim, std::int64_t bytes) {
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, victim, 0));
  require(pidfd >= 0, "bench: pidfd_open");
  std::atomic<std::uint64_t> noticed{0};
  std::atomic<std::uint64_t> woken{0};
  std::thread watcher([&] {
    pollfd entry{pidfd, POLLIN, 0};
    poll(&entry, 1, -1);
    noticed = ticks();
  });
  std::thread waiter([&] {
    const WriteLease lease = field.write();
    woken = ticks();
  });
  usleep(20'000);  // both wait by now
  const double shared_before = shared_bytes();
  const std::uint64_t start = ticks();
  kill(victim, SIGKILL);
  while (client.exists(kVictims)) usleep(100);
  const std::uint64_t unnamed = ticks();
  const std::uint64_t freed = wait_until_free(bytes, shared_before);
  watcher.join();
  waiter.join();
  close(pidfd);
  return {ns_between(start, noticed), ns_between(start, woken), ns_between(start, unnamed),
          ns_between(start, freed)};
}

void measure(const Options& options, const std::vector<Size>& sizes, SharedPage& page) {
  const Client client = connect(options);
  const Array field = client.create(bytes_array(kField, 4096));
  field.write().publish();
  page.meet();
  std::map<std::string, std::vector<double>> all;
  Report report("bench_crash");
  for (int block = 0; block < options.blocks; ++block) {
    for (const Size& size : sizes) {
      std::map<std::string, std::vector<double>> samples;
      for (int i = 0; i < size.kills; ++i) {
        while (page.ping.load() == 0) usleep(1000);
        const auto victim = static_cast<pid_t>(page.ping.exchange(0));
        const Moments moments = kill_one(client, field, victim, size.bytes);
        samples[fmt::format("pidfd.{}", size.name)].push_back(moments.notice_ns);
        samples[fmt::format("writer.{}", size.name)].push_back(moments.waiter_ns);
        samples[fmt::format("unnamed.{}", size.name)].push_back(moments.unnamed_ns);
        samples[fmt::format("freed.{}", size.name)].push_back(moments.freed_ns);
      }
      for (auto& [name, values] : samples) {
        report.add(name + ".p50", percentile(values, 0.5));
        all[name].insert(all[name].end(), values.begin(), values.end());
      }
    }
  }
  for (const Size& size : sizes) {
    report.note(fmt::format("kills with {} touched", size.name),
                fmt::format("{}", all[fmt::format("writer.{}", size.name)].size()));
  }
  // Of all kills together: a block has too few of them for that.
  for (auto& [name, values] : all) {
    report.add(name + ".p99", percentile(values, 0.99));
    report.add(name + ".max", percentile(values, 1.0));
  }
  report.print();
}

}  // namespace

// Victims are forked by a process that has no client.
int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const std::vector<Size> sizes = {
      {"0", 0, options.pick(25, 5, 1)},
      {"1GiB", std::int64_t{1} << options.pick(30, 30, 20), options.pick(3, 1, 1)}};
  ns_per_tick();
  SharedPage& page = new_shared_page(2);
  const Processes measuring(1, [&](int) { measure(options, sizes, page); });
  page.meet();  // there is an array to write
  for (int block = 0; block < options.blocks; ++block) {
    for (const Size& size : sizes) {
      for (int i = 0; i < size.kills; ++i) {
        const pid_t victim = fork();
        require(victim >= 0, "bench: fork");
        if (victim == 0) be_killed(options, size.bytes, page);
        waitpid(victim, nullptr, 0);
      }
    }
  }
  return 0;
}
