// From SIGKILL of a process in the middle of a write, with much or little memory mapped and
// touched, to: the next writer has the right (it was waiting for it); the memory of what the dead
// process had created is free. Against the kernel's own notice, the pidfd's.

#include <memlease/memlease.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <thread>

#include "bench/environment.h"
#include "bench/process.h"
#include "bench/report.h"
#include "fmt/format.h"

namespace {

using namespace memlease;
using namespace memlease::bench;

constexpr const char* kField = "bench/crash/field";
constexpr const char* kVictims = "bench/crash/own";

// Creates and fills an array of its own, begins to write the common one, and waits for its end.
void be_killed(const Options& options, std::int64_t bytes, SharedPage& page) {
  const Client client = connect(options);
  CreateOptions own = bytes_array(kVictims, std::max<std::int64_t>(bytes, 1));
  own.slots = 1;
  const Array mine = client.create(own);
  WriteLease filling = mine.write();
  std::memset(filling.data(), 1, static_cast<std::size_t>(bytes));
  filling.publish();
  const WriteLease half = client.open(kField).write();
  page.ping.store(1);
  for (;;) pause();
}

struct Moments {
  double notice_ns;
  double waiter_ns;
  double freed_ns;
};

Moments kill_one(const Client& client, const Array& field, pid_t victim) {
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, victim, 0));
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
  const std::uint64_t start = ticks();
  kill(victim, SIGKILL);
  while (client.exists(kVictims)) {
  }
  const std::uint64_t freed = ticks();
  watcher.join();
  waiter.join();
  close(pidfd);
  waitpid(victim, nullptr, 0);
  const auto since_ns = [&](std::uint64_t end) {
    return static_cast<double>(end - start) * ns_per_tick();
  };
  return {since_ns(noticed), since_ns(woken), since_ns(freed)};
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  struct Size {
    const char* name;
    std::int64_t bytes;
  };
  const Size sizes[] = {{"0", 0}, {"1GiB", std::int64_t{1} << 30}};
  const int rounds = options.quick ? 1 : 3;
  ns_per_tick();
  // The victims are forked by a process that has no client.
  constexpr int kMost = 64;
  SharedPage* pages[kMost];
  pid_t victims[kMost];
  const int count = options.blocks * rounds * static_cast<int>(std::size(sizes));
  for (int i = 0; i < count; ++i) {
    pages[i] = &new_shared_page(1);
    const Size& size = sizes[static_cast<std::size_t>(i) % std::size(sizes)];
    victims[i] = fork();
    if (victims[i] == 0) {
      while (pages[i]->pong.load() == 0) usleep(1000);  // one at a time
      be_killed(options, size.bytes, *pages[i]);
    }
  }
  const Client client = connect(options);
  const Array field = client.create(bytes_array(kField, 4096));
  field.write().publish();
  Report report("bench_crash");
  int next = 0;
  for (int block = 0; block < options.blocks; ++block) {
    std::vector<double> notice[2], waiter[2], freed[2];
    for (int i = 0; i < rounds * 2; ++i, ++next) {
      pages[next]->pong.store(1);
      while (pages[next]->ping.load() == 0) usleep(1000);
      const Moments moments = kill_one(client, field, victims[next]);
      notice[i % 2].push_back(moments.notice_ns);
      waiter[i % 2].push_back(moments.waiter_ns);
      freed[i % 2].push_back(moments.freed_ns);
    }
    for (std::size_t s = 0; s < 2; ++s) {
      report.add(fmt::format("pidfd.{}", sizes[s].name), percentile(notice[s], 0.5));
      report.add(fmt::format("writer.{}", sizes[s].name), percentile(waiter[s], 0.5));
      report.add(fmt::format("freed.{}", sizes[s].name), percentile(freed[s], 0.5));
    }
  }
  report.print();
  return 0;
}
