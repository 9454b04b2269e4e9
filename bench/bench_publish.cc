// From "publish" in one process to "the bytes are here" in another: one way, by the processor's
// clock, with both processes on CPUs of their own and on the same one, back to back ("hot") and
// with pauses long enough that the reader has fallen asleep ("cold"). Against channels written by
// hand, once more with 4 KiB that are written and summed, and as half of a round trip, which needs
// no common clock. Also what write and publish cost while nobody waits, and that they need no
// system call then.

#include <immintrin.h>
#include <linux/seccomp.h>
#include <memlease/memlease.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "bench/channel.h"
#include "bench/report.h"
#include "bench/timing.h"
#include "benchmark/benchmark.h"
#include "client/slots/spin.h"
#include "fmt/format.h"

namespace {

using namespace memlease;
using namespace memlease::bench;

struct Pair {
  std::unique_ptr<Channel> there;
  std::unique_ptr<Channel> back;
};

Pair make_pair(const std::string& kind) {
  static int number = 0;
  if (kind == "spin") return {spin_channel(), spin_channel()};
  if (kind == "spin.4KiB") return {spin_channel(Load::kPage), spin_channel()};
  if (kind == "futex") return {futex_channel(), futex_channel()};
  if (kind == "eventfd") return {eventfd_channel(), eventfd_channel()};
  if (kind == "socket") return {socket_channel(), socket_channel()};
  ++number;
  return {array_channel(fmt::format("bench/there/{}", number),
                        kind == "memlease.4KiB" ? Load::kPage : Load::kWord),
          array_channel(fmt::format("bench/back/{}", number))};
}

struct Course {
  std::string name;
  int reader_cpu;
  int writer_cpu;
  int rounds;
  int pause_us;
  std::vector<std::string> kinds;
};

// Ping and pong. The first ones map pages and ask for rights.
void measure(const Options& options, const std::string& kind, const Course& course,
             Report& report) {
  static SharedPage& page = new_shared_page(2);
  Pair pair = make_pair(kind);
  const int first = course.rounds / 10;
  {
    const Processes both(2, [&](int side) {
      const bool writes = side == 0;
      pin(writes ? course.writer_cpu : course.reader_cpu);
      (writes ? pair.there : pair.back)->begin(options, Channel::kSender);
      (writes ? pair.back : pair.there)->begin(options, 0);
      std::vector<double> mine;
      for (int i = 0; i < course.rounds; ++i) {
        if (writes && course.pause_us > 0) usleep(static_cast<useconds_t>(course.pause_us));
        std::uint64_t start = ticks();
        if (writes) {
          pair.there->send();
          benchmark::DoNotOptimize(pair.back->receive());
        } else {
          start = pair.there->receive();
        }
        const double ns = ns_between(start, ticks());
        if (!writes) pair.back->send();
        if (i >= first) mine.push_back(writes ? ns / 2 : ns);
      }
      page.meet();  // the other one's array goes with it
      double* const figures = page.values + (writes ? 0 : 2);
      figures[0] = percentile(mine, 0.5);
      figures[1] = percentile(mine, 0.99);
    });
  }
  report.add(fmt::format("{}.{}.half_round_trip.p50", kind, course.name), page.values[0]);
  report.add(fmt::format("{}.{}.half_round_trip.p99", kind, course.name), page.values[1]);
  report.add(fmt::format("{}.{}.p50", kind, course.name), page.values[2]);
  report.add(fmt::format("{}.{}.p99", kind, course.name), page.values[3]);
}

time_t coarse_second() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec;
}

// Write, publish, read, release under a filter that kills at the first system call. Right after the
// once-a-second look at the daemon's socket, since that is one.
void cycles_without_calls(const Options& options, SharedPage& page, int cycles) {
  const Client client = connect(options);
  const Array array = client.create(bytes_array("bench/no-calls", 4096));
  array.write().publish();
  const auto cycle = [&] {
    array.write().publish();
    benchmark::DoNotOptimize(array.read().data());
  };
  const time_t before = coarse_second();
  while (coarse_second() == before) {
  }
  cycle();
  prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
  for (int i = 0; i < cycles; ++i) cycle();
  page.ping.store(static_cast<std::uint64_t>(cycles));
  for (;;) _mm_pause();  // ending would be a system call
}

bool needs_no_calls(const Options& options, int cycles) {
  SharedPage& page = new_shared_page(1);
  const pid_t child = fork();
  if (child == 0) cycles_without_calls(options, page, cycles);
  int status = 0;
  while (page.ping.load() == 0 && waitpid(child, &status, WNOHANG) == 0) usleep(1000);
  const bool done = page.ping.load() != 0;
  if (done) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  return done;
}

// Nobody waits: one subscriber, which is this process itself.
void measure_alone(const Options& options, std::size_t blocks, SharedPage& page) {
  const int rounds = options.pick(500'000, 50'000, 500);
  const Client client = connect(options);
  const Array array = client.create(bytes_array("bench/alone", 4096));
  array.write().publish();
  array.read().release();
  wire::Word& word = page.ping;
  for (std::size_t block = 0; block < blocks; ++block) {
    page.values[2 * block] = ns_per_round(rounds, [&](int) { word.fetch_add(1); });
    page.values[2 * block + 1] = ns_per_round(rounds, [&](int) { array.write().publish(); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const std::vector<int> places = cpus();
  ns_per_tick();
  Report report("bench_publish");
  const int hot = options.pick(20'000, 2'000, 20);
  const int cold = options.pick(300, 100, 10);
  const std::vector<std::string> sleeping = {"futex", "eventfd", "socket", "memlease"};
  std::vector<std::string> all = sleeping;
  all.insert(all.end(), {"spin", "spin.4KiB", "memlease.4KiB"});
  std::vector<Course> courses = {{"same_cpu", places[0], places[0], hot, 0, sleeping}};
  if (places.size() > 1) {
    courses.push_back({"hot", places[0], places[1], hot, 0, all});
    courses.push_back({"cold", places[0], places[1], cold, 1000, sleeping});
  }
  for (int block = 0; block < options.blocks; ++block) {
    for (const Course& course : courses) {
      for (const std::string& kind : course.kinds) measure(options, kind, course, report);
    }
  }
  SharedPage& page = new_shared_page(1);
  const auto blocks = static_cast<std::size_t>(options.blocks);
  {
    const Processes alone(1, [&](int) { measure_alone(options, blocks, page); });
  }
  for (std::size_t block = 0; block < blocks; ++block) {
    report.add("rmw", page.values[2 * block]);
    report.add("memlease.nobody_waits", page.values[2 * block + 1]);
  }
  const int cycles = options.pick(1'000'000, 100'000, 1'000);
  report.note(
      "system calls",
      fmt::format("{} in {} cycles of write, publish, read, release",
                  needs_no_calls(options, cycles) ? "none" : "SOME (killed by seccomp)", cycles));
  report.note("spin budget, calibrated",
              fmt::format("{:.1f} us", static_cast<double>(internal::wake_cost().count()) / 1000));
  report.note("pinned", "yes");
  report.print();
  return 0;
}
