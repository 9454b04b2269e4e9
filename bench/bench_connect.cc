// Many processes that connect in one instant, as the ranks of a parallel program do: until the last
// one is connected. Against as many connections one after another, each of a process of its own.

#include <memlease/memlease.h>

#include <vector>

#include "bench/environment.h"
#include "bench/process.h"
#include "bench/report.h"
#include "bench/timing.h"
#include "fmt/format.h"

namespace {

using namespace memlease;
using namespace memlease::bench;

double in_one_instant(const Options& options, int count) {
  SharedPage& page = new_shared_page(static_cast<unsigned>(count) + 1);
  const Processes crowd(count, [&](int) {
    page.meet();
    const Client client = connect(options);
    if (page.pong.fetch_add(1) + 1 == static_cast<std::uint64_t>(count)) page.payload[0] = ticks();
    page.meet();
  });
  const std::uint64_t begin = ticks();
  page.meet();
  page.meet();
  return ns_between(begin, page.payload[0]);
}

double alone(const Options& options) {
  SharedPage& page = new_shared_page(1);
  {
    const Processes process(
        1, [&](int) { page.values[0] = once_ns([&] { static_cast<void>(connect(options)); }); });
  }
  return page.values[0];
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const int rounds = options.pick(25, 10, 1);
  ns_per_tick();
  Report report("bench_connect");
  for (int block = 0; block < options.blocks; ++block) {
    std::vector<double> samples;
    for (int i = 0; i < rounds; ++i) samples.push_back(alone(options));
    const double one = percentile(samples, 0.5);
    for (const int count : {64, 200}) {
      report.add(fmt::format("at_once.{}", count), in_one_instant(options, count));
      report.add(fmt::format("in_turn.{}", count), count * one);
    }
  }
  report.print();
  return 0;
}
