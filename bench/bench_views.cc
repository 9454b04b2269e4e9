// What a loop over a View costs, and over a Span or an Indexer, against that over a pointer: a
// stencil, y += a x, and a sum, of rows that fit a core's cache. The loops are those of a program
// that uses the library, compiled as this build is.

#include <memlease/memlease.h>

#include <cstdint>
#include <vector>

#include "bench/environment.h"
#include "bench/report.h"
#include "bench/timing.h"
#include "benchmark/benchmark.h"

namespace {

using namespace memlease;
using namespace memlease::bench;

constexpr std::int64_t kRows = 64;
constexpr std::int64_t kColumns = 512;

// A pointer, indexed as people write it.
struct Raw {
  float* first;
  std::int64_t rows;
  std::int64_t columns;

  std::int64_t extent(int dim) const { return dim == 0 ? rows : columns; }
  float& operator()(std::int64_t i, std::int64_t j) const { return first[i * columns + j]; }
};

template <typename Integer>
ContiguousIndexer<float, 2, Integer> contiguous(const Span<float, 2>& span) {
  return make_indexer<Integer, Layout::Contiguous>(span);
}

template <typename To, typename From>
[[gnu::noinline]] void stencil(To to, From from) {
  for (std::int64_t i = 1; i < to.extent(0) - 1; ++i) {
    for (std::int64_t j = 1; j < to.extent(1) - 1; ++j) {
      to(i, j) = 0.25F * (from(i - 1, j) + from(i + 1, j) + from(i, j - 1) + from(i, j + 1));
    }
  }
}

template <typename To, typename From>
[[gnu::noinline]] void axpy(To to, From from) {
  for (std::int64_t i = 0; i < to.extent(0); ++i) {
    for (std::int64_t j = 0; j < to.extent(1); ++j) to(i, j) += 2 * from(i, j);
  }
}

// Wraps around: any order of the additions is right, and vectors may be used.
template <typename From>
[[gnu::noinline]] std::uint32_t sum(From from) {
  std::uint32_t total = 0;
  for (std::int64_t i = 0; i < from.extent(0); ++i) {
    for (std::int64_t j = 0; j < from.extent(1); ++j) {
      total += static_cast<std::uint32_t>(static_cast<std::int32_t>(from(i, j)));
    }
  }
  return total;
}

template <typename To, typename From>
void measure(Report& report, const std::string& kind, int rounds, To to, From from) {
  report.add("stencil." + kind, ns_per_round(rounds, [&](int) {
               stencil(to, from);
               benchmark::ClobberMemory();
             }));
  report.add("axpy." + kind, ns_per_round(rounds, [&](int) {
               axpy(to, from);
               benchmark::ClobberMemory();
             }));
  report.add("sum." + kind, ns_per_round(rounds, [&](int) {
               benchmark::DoNotOptimize(sum(from));
               benchmark::ClobberMemory();
             }));
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const int rounds = options.pick(2000, 200, 2);
  Report report("bench_views");
  const Client client = connect(options);
  CreateOptions create{"bench/views", dtype_of<float>(), {kRows, kColumns}};
  const Array array = client.create(create);
  array.write().publish();
  create.name = "bench/views/from";
  const Array source = client.create(create);
  source.write().publish();
  const WriteLease to = array.write();
  const WriteLease from = source.write();
  auto* const to_first = static_cast<float*>(to.data());
  auto* const from_first = static_cast<float*>(from.data());
  for (int block = 0; block < options.pick(20, 5, 1); ++block) {
    measure(report, "raw", rounds, Raw{to_first, kRows, kColumns},
            Raw{from_first, kRows, kColumns});
    measure(report, "view", rounds, to.view<float, 2>(), from.view<float, 2>());
    measure(report, "indexer", rounds, contiguous<std::int64_t>(to.span<float, 2>()),
            contiguous<std::int64_t>(from.span<float, 2>()));
    measure(report, "indexer32", rounds, contiguous<std::int32_t>(to.span<float, 2>()),
            contiguous<std::int32_t>(from.span<float, 2>()));
    measure(report, "span", rounds, to.span<float, 2>(), from.span<float, 2>());
  }
  report.print();
  return 0;
}
