// What it costs to copy 64 MiB of an array on the host: into it, out of it, and from one version to
// the next, against one thread's memcpy of as many bytes of private memory. No copy fits a cache.

#include <memlease/memlease.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "bench/environment.h"
#include "bench/report.h"
#include "bench/timing.h"
#include "benchmark/benchmark.h"

namespace {

using namespace memlease;
using namespace memlease::bench;

constexpr int kSlots = 3;

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const std::size_t bytes = options.pick<std::size_t>(64 << 20, 64 << 20, 4096);
  const int rounds = options.pick(11, 5, 1);
  Report report("bench_copies");
  const Client client = connect(options);
  CreateOptions of_bytes = bytes_array("bench/copies", static_cast<std::int64_t>(bytes));
  of_bytes.slots = kSlots;
  const Array array = client.create(of_bytes);
  std::vector<char> one(bytes, 1);
  std::vector<char> other(bytes, 2);
  for (int slot = 0; slot <= kSlots; ++slot) array.put(one.data(), bytes);  // maps their pages
  for (int block = 0; block < options.blocks; ++block) {
    const auto add = [&](const std::string& series, auto copy) {
      report.add(series, median_ns(rounds, [&](int) {
                   copy();
                   benchmark::ClobberMemory();
                 }));
    };
    add("memcpy", [&] { std::memcpy(other.data(), one.data(), bytes); });
    add("get", [&] { array.get(other.data(), bytes); });
    add("put", [&] { array.put(one.data(), bytes); });
    add("update", [&] { array.update().publish(); });
  }
  report.print();
  return 0;
}
