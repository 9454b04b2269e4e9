// What one re-acquire and release costs, of 1 array and of 1024 in turn, in one process and in one
// per CPU at once, against one atomic read-modify-write of a line of its own and against a copy of
// a shared_ptr. "serial" forbids the processor to overlap one round with the next.

#include <memlease/memlease.h>
#include <x86intrin.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "bench/environment.h"
#include "bench/process.h"
#include "bench/report.h"
#include "bench/timing.h"
#include "benchmark/benchmark.h"
#include "fmt/format.h"

namespace {

using namespace memlease;
using namespace memlease::bench;

constexpr int kArrays = 1024;

std::string array_name(int index) { return fmt::format("bench/hold/{}", index); }

// The arrays, each with a version; kept alive by the one who calls.
std::vector<Array> create_arrays(const Client& client) {
  std::vector<Array> arrays;
  for (int i = 0; i < kArrays; ++i) {
    arrays.push_back(client.create(bytes_array(array_name(i), 4096)));
    arrays.back().write().publish();
  }
  return arrays;
}

void hold(const Array& array) {
  const ReadLease lease = array.read();
  std::uint8_t first = *static_cast<const std::uint8_t*>(lease.data());
  benchmark::DoNotOptimize(first);
}

class Loops {
 public:
  Loops(std::vector<Array> arrays, int rounds) : arrays_(std::move(arrays)), rounds_(rounds) {
    for (const Array& array : arrays_) hold(array);  // subscribes
  }

  // The names of the loops, and one of them by its number.
  static constexpr const char* kNames[] = {"rmw",         "rmw.serial", "shared_ptr", "hold",
                                           "hold.serial", "try_read",   "hold.1024"};
  static constexpr int kCount = 7;

  double run(int loop) {
    const Array& one = arrays_.front();
    switch (loop) {
      case 0:
        return ns_per_round(rounds_, [&](int) { word_.fetch_add(1); });
      case 1:
        return ns_per_round(rounds_, [&](int) { word_.fetch_add(1), _mm_lfence(); });
      case 2:
        return ns_per_round(rounds_, [&](int) {
          const std::shared_ptr<int> copy = shared_;
          benchmark::DoNotOptimize(*copy);
        });
      case 3:
        return ns_per_round(rounds_, [&](int) { hold(one); });
      case 4:
        return ns_per_round(rounds_, [&](int) { hold(one), _mm_lfence(); });
      case 5:
        return ns_per_round(rounds_, [&](int) { benchmark::DoNotOptimize(one.try_read(news_)); });
      default:
        return ns_per_round(rounds_,
                            [&](int i) { hold(arrays_[static_cast<unsigned>(i) % kArrays]); });
    }
  }

 private:
  const std::vector<Array> arrays_;
  const int rounds_;
  const ReadOptions news_{0, 1 << 30, {}, {}};
  const std::shared_ptr<int> shared_ = std::make_shared<int>(1);
  alignas(64) std::atomic<std::uint64_t> word_{0};
};

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const std::vector<int> places = cpus();
  const int count = static_cast<int>(places.size());
  SharedPage& page = new_shared_page(static_cast<unsigned>(count) + 1);
  Report report("bench_hold");
  report.note("processes", fmt::format("1 and {}, pinned", count));
  // Every loop runs alone in process 0 first, then in all processes at once.
  const Processes processes(count, [&](int index) {
    pin(places[static_cast<std::size_t>(index)]);
    const Client client = connect(options);
    page.meet();  // the arrays are there
    std::vector<Array> arrays;
    arrays.reserve(kArrays);
    for (int i = 0; i < kArrays; ++i) arrays.push_back(client.open(array_name(i)));
    Loops loops(std::move(arrays), options.pick(1'000'000, 100'000, 1'000));
    for (int block = 0; block < options.blocks; ++block) {
      for (int loop = 0; loop < Loops::kCount; ++loop) {
        page.meet();
        if (index == 0) page.values[0] = loops.run(loop);
        page.meet();
        page.values[1 + index] = loops.run(loop);
        page.meet();
      }
    }
  });
  const Client client = connect(options);
  const std::vector<Array> arrays = create_arrays(client);
  page.meet();
  for (int block = 0; block < options.blocks; ++block) {
    for (const char* name : Loops::kNames) {
      page.meet();
      page.meet();
      page.meet();
      report.add(name, page.values[0]);
      double sum = 0;
      for (int i = 0; i < count; ++i) sum += page.values[1 + i];
      report.add(fmt::format("{}.all", name), sum / count);
    }
  }
  report.print();
  return 0;
}
