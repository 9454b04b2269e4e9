// From "publish" in one process to "the bytes are here" in another: one way, by the processor's
// clock, with both processes on CPUs of their own and on the same one, back to back ("hot") and
// with pauses long enough that the reader has fallen asleep ("cold"). Against channels written by
// hand. Also what write and publish cost while nobody waits, and that they need no system call
// then.

#include <immintrin.h>
#include <linux/seccomp.h>
#include <memlease/memlease.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "bench/channel.h"
#include "bench/report.h"
#include "benchmark/benchmark.h"
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
  if (kind == "futex") return {futex_channel(), futex_channel()};
  if (kind == "eventfd") return {eventfd_channel(), eventfd_channel()};
  if (kind == "socket") return {socket_channel(), socket_channel()};
  ++number;
  return {array_channel(fmt::format("bench/there/{}", number)),
          array_channel(fmt::format("bench/back/{}", number))};
}

struct Course {
  int reader_cpu;
  int writer_cpu;
  int rounds;
  int pause_us;
};

struct Latency {
  double p50;
  double p99;
};

// Ping and pong; the way there is measured.
Latency one_way(const Options& options, const std::string& kind, const Course& course) {
  static SharedPage& page = new_shared_page(1);
  Pair pair = make_pair(kind);
  const Processes writer(1, [&](int) {
    pin(course.writer_cpu);
    pair.there->begin(options, true);
    pair.back->begin(options, false);
    for (int i = 0; i < course.rounds; ++i) {
      if (course.pause_us > 0) usleep(static_cast<useconds_t>(course.pause_us));
      pair.there->send();
      benchmark::DoNotOptimize(pair.back->receive());
    }
  });
  // Not in this process, which forks again for the next course.
  {
    const Processes reader(1, [&](int) {
      pin(course.reader_cpu);
      pair.back->begin(options, true);
      pair.there->begin(options, false);
      std::vector<double> mine;
      for (int i = 0; i < course.rounds; ++i) {
        const std::uint64_t sent = pair.there->receive();
        const std::uint64_t now = ticks();
        // The first ones map pages and ask for rights.
        if (i >= course.rounds / 10)
          mine.push_back(static_cast<double>(now - sent) * ns_per_tick());
        pair.back->send();
      }
      page.values[0] = percentile(mine, 0.5);
      page.values[1] = percentile(mine, 0.99);
    });
  }
  return {page.values[0], page.values[1]};
}

time_t coarse_second() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec;
}

constexpr int kCycles = 1'000'000;

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
void measure_alone(const Options& options, int blocks, SharedPage& page) {
  const int rounds = options.quick ? 50'000 : 500'000;
  const Client client = connect(options);
  const Array array = client.create(bytes_array("bench/alone", 4096));
  array.write().publish();
  array.read().release();
  wire::Word& word = page.ping;
  const auto ns = [&](const std::function<void()>& loop) {
    const std::uint64_t start = thread_ns();
    loop();
    return static_cast<double>(thread_ns() - start) / rounds;
  };
  for (int block = 0; block < blocks; ++block) {
    page.values[2 * block] = ns([&] {
      for (int i = 0; i < rounds; ++i) word.fetch_add(1);
    });
    page.values[2 * block + 1] = ns([&] {
      for (int i = 0; i < rounds; ++i) array.write().publish();
    });
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const std::vector<int> places = cpus();
  ns_per_tick();
  Report report("bench_publish");
  const int hot = options.quick ? 2'000 : 20'000;
  const int cold = options.quick ? 100 : 500;
  const std::vector<std::string> all = {"spin", "futex", "eventfd", "socket", "memlease"};
  const std::vector<std::string> sleeping = {"futex", "eventfd", "socket", "memlease"};
  for (int block = 0; block < options.blocks; ++block) {
    const auto measure = [&](const std::string& course_name, const std::vector<std::string>& kinds,
                             const Course& course) {
      for (const std::string& kind : kinds) {
        const Latency latency = one_way(options, kind, course);
        report.add(fmt::format("{}.{}.p50", kind, course_name), latency.p50);
        report.add(fmt::format("{}.{}.p99", kind, course_name), latency.p99);
      }
    };
    if (places.size() > 1) {
      measure("hot", all, {places[0], places[1], hot, 0});
      measure("cold", sleeping, {places[0], places[1], cold, 1000});
    }
    measure("same_cpu", sleeping, {places[0], places[0], hot, 0});
  }
  SharedPage& page = new_shared_page(1);
  {
    const Processes alone(1, [&](int) { measure_alone(options, options.blocks, page); });
  }
  for (int block = 0; block < options.blocks; ++block) {
    report.add("rmw", page.values[2 * block]);
    report.add("memlease.nobody_waits", page.values[2 * block + 1]);
  }
  const int cycles = options.quick ? kCycles / 10 : kCycles;
  report.note(
      "system calls",
      fmt::format("{} in {} cycles of write, publish, read, release",
                  needs_no_calls(options, cycles) ? "none" : "SOME (killed by seccomp)", cycles));
  report.print();
  return 0;
}
