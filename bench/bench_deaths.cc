// How long others' calls take while a process with many arrays dies: the longest of those that
// another process makes one after the other in the quarter second from the SIGKILL on, beside one
// in which nobody dies. No longer than that: about once a second a call takes 0.1 s in gRPC.

#include <memlease/memlease.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <vector>

#include "bench/environment.h"
#include "bench/process.h"
#include "bench/report.h"
#include "bench/timing.h"
#include "fmt/format.h"

namespace {

using namespace memlease;
using namespace memlease::bench;

void be_killed(const Options& options, SharedPage& page) {
  const Client client = connect(options);
  std::vector<Array> arrays;
  for (int i = 0; i < options.pick(20'000, 20'000, 200); ++i) {
    CreateOptions what = bytes_array(fmt::format("bench/deaths/{}", i), 64);
    what.slots = 1;
    arrays.push_back(client.create(what));
  }
  page.ping.store(static_cast<std::uint64_t>(getpid()));  // not at the barrier: one dies there
  for (;;) pause();
}

double longest_call_ns(const Options& options, const Client& client) {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(options.pick(250, 250, 10));
  double longest = 0;
  while (std::chrono::steady_clock::now() < end) {
    longest = std::max(longest, once_ns([&] { (void)client.exists("bench/deaths/none"); }));
  }
  return longest;
}

void measure(const Options& options, SharedPage& page) {
  const Client client = connect(options);
  Report report("bench_deaths");
  for (int block = 0; block < options.blocks; ++block) {
    while (page.ping.load() == 0) usleep(1000);
    const auto victim = static_cast<pid_t>(page.ping.exchange(0));
    report.add("alone", longest_call_ns(options, client));
    kill(victim, SIGKILL);
    report.add("beside", longest_call_ns(options, client));
    page.pong.store(1);
  }
  report.print();
}

}  // namespace

// Victims are forked by a process that has no client.
int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  ns_per_tick();
  SharedPage& page = new_shared_page(1);
  const Processes measuring(1, [&](int) { measure(options, page); });
  for (int block = 0; block < options.blocks; ++block) {
    const pid_t victim = fork();
    require(victim >= 0, "bench: fork");
    if (victim == 0) be_killed(options, page);
    waitpid(victim, nullptr, 0);
    while (page.pong.exchange(0) == 0) usleep(1000);  // the next one creates nothing meanwhile
  }
  return 0;
}
