// What the kernels of memlease/kernels.h cost over a leased array that fits no cache, against what
// the memory gives: STREAM's scale, b[i] = 3 a[i], of as many bytes, by the same threads. Both read
// and write each element once.

#include <memlease/kernels.h>
#include <memlease/memlease.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "bench/environment.h"
#include "bench/report.h"
#include "bench/timing.h"
#include "benchmark/benchmark.h"

namespace {

using namespace memlease;
using namespace memlease::bench;

// Its pages are touched by the threads that work on them.
struct Private {
  explicit Private(const Span<float, 3>& like) : elements(static_cast<std::size_t>(like.size())) {
    fill(span(like), 1.0F);
  }
  Span<float, 3> span(const Span<float, 3>& like) {
    return {elements.data(), like.shape(), like.strides_bytes()};
  }
  std::vector<float> elements;
};

[[gnu::noinline]] void scale(float* to, const float* from, std::int64_t count) {
#pragma omp parallel for simd schedule(static)
  for (std::int64_t i = 0; i < count; ++i) to[i] = 3 * from[i];
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const std::int64_t side = options.pick(256, 256, 8);
  const int rounds = options.pick(9, 5, 1);
  Report report("bench_kernels");
  const Client client = connect(options);
  const Array array = client.create({"bench/kernels", dtype_of<float>(), {side, side, side}});
  const WriteLease lease = array.write();
  const auto leased = lease.span<float, 3>();
  fill(leased, 1.0F);
  Private one(leased);
  Private other(leased);
  const auto bytes = static_cast<std::size_t>(leased.size()) * sizeof(float);
  for (int block = 0; block < options.pick(5, 3, 1); ++block) {
    const auto add = [&](const std::string& series, double ns) {
      report.add(series, ns);
      benchmark::ClobberMemory();
    };
    add("scale", median_ns(rounds, [&](int) {
          scale(other.elements.data(), one.elements.data(), leased.size());
        }));
    add("add.private", median_ns(rounds, [&](int) { add_index_tuple(one.span(leased)); }));
    add("add.lease", median_ns(rounds, [&](int) { add_index_tuple(leased); }));
    add("fill.lease", median_ns(rounds, [&](int) { fill(leased, 2.0F); }));
    add("copy.lease",
        median_ns(rounds, [&](int) { copy(Span<const float, 3>(one.span(leased)), leased); }));
    add("memcpy", median_ns(rounds, [&](int) {
          std::memcpy(other.elements.data(), one.elements.data(), bytes);
        }));
  }
  report.print();
  return 0;
}
