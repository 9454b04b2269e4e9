// How long a write of 0.2 ms takes, its wait for the right to write included, where 2 and 16
// processes each make one every 5 ms.

#include <memlease/memlease.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "bench/environment.h"
#include "bench/process.h"
#include "bench/report.h"
#include "bench/timing.h"
#include "fmt/format.h"

namespace {

using namespace memlease;
using namespace memlease::bench;
using std::chrono::microseconds;

constexpr int kMost = 16;
constexpr microseconds kHeld{200};
constexpr microseconds kPause{5000};

void hold(const Array& array) {
  WriteLease lease = array.write();
  std::this_thread::sleep_for(kHeld);
  lease.publish();
}

class Writer {
 public:
  Writer(const Options& options, SharedPage& page, int index)
      : options_(options), page_(page), index_(index) {
    hold(array_);
  }
  void write_now_and_then() {
    const int rounds = options_.pick(500, 100, 2);
    std::vector<double> waits;
    page_.meet();
    for (int i = 0; i < rounds; ++i) {
      std::this_thread::sleep_for(kPause);
      waits.push_back(once_ns([&] { hold(array_); }));
    }
    page_.values[index_] = percentile(waits, 0.5);
    page_.values[kMost + index_] = percentile(waits, 0.99);
    page_.meet();
  }

 private:
  const Options& options_;
  SharedPage& page_;
  const int index_;
  const Client client_ = connect(options_);
  const Array array_ = client_.open("bench/writers");
};

double largest(const SharedPage& page, int from, int count) {
  double found = 0;
  for (int i = 0; i < count; ++i) found = std::max(found, page.values[from + i]);
  return found;
}

void measure(const Options& options, int count, Report& report) {
  SharedPage& page = new_shared_page(static_cast<unsigned>(count) + 1);
  const Processes processes(count, [&](int index) {
    page.meet();  // the array is there
    Writer writer(options, page, index);
    for (int block = 0; block < options.blocks; ++block) {
      writer.write_now_and_then();
      page.meet();
    }
  });
  const Client client = connect(options);
  CreateOptions array = bytes_array("bench/writers", 4096);
  array.exist_ok = true;
  array.lifetime = Lifetime::Persistent;
  client.create(array).write().publish();
  page.meet();
  for (int block = 0; block < options.blocks; ++block) {
    for (int i = 0; i < 2; ++i) page.meet();
    report.add(fmt::format("turn.{}.p50", count), largest(page, 0, count));
    report.add(fmt::format("turn.{}.p99", count), largest(page, kMost, count));
    page.meet();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  ns_per_tick();
  Report report("bench_writers");
  for (const int count : {2, kMost}) measure(options, count, report);
  connect(options).withdraw("bench/writers");
  report.print();
  return 0;
}
