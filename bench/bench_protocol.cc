// What the slot protocol itself costs, where nobody else writes, reads or waits: on the pages of
// one array in plain memory, without handle, lease, wait or clock. What a read and a write of the
// library take beyond that is what stands around it.

#include <atomic>
#include <cstdint>

#include "bench/environment.h"
#include "bench/report.h"
#include "bench/timing.h"
#include "benchmark/benchmark.h"
#include "tests/client/slots/slot_world.h"

int main(int argc, char** argv) {
  using namespace memlease;
  using namespace memlease::bench;
  const Options options = parse(argc, argv);
  const int rounds = options.pick(1'000'000, 100'000, 1'000);
  Report report("bench_protocol");
  testing::SlotWorld array(wire::SlotLayout{2, 2}, 1);
  internal::SlotReader& reader = array.reader(0);
  array.publish();
  alignas(64) std::atomic<std::uint64_t> word{0};
  for (int block = 0; block < options.blocks; ++block) {
    report.add("rmw", ns_per_round(rounds, [&](int) { word.fetch_add(1); }));
    report.add("hold", ns_per_round(rounds, [&](int) {
                 const internal::ReadAttempt held = reader.acquire(0, 0);
                 benchmark::DoNotOptimize(held.version);
                 reader.release(held.slot);
               }));
    report.add("publish", ns_per_round(rounds, [&](int) { array.publish(); }));
  }
  report.print();
  return 0;
}
