// What it costs that somebody keeps what he has: a writer beside three readers of other processes
// that hold all the versions they may, against the same writer alone; a pin, against the lease it
// is of; and a publication over a pin that lives, whose pages are protected meanwhile, against
// filling them.

#include <memlease/memlease.h>

#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>
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

constexpr int kReaders = 3;

struct Size {
  const char* name;
  std::int64_t bytes;
};
constexpr Size kSizes[] = {{"64KiB", 64 << 10}, {"8MiB", 8 << 20}};

std::string kept_name(const Size& size) { return fmt::format("bench/keep/{}", size.name); }

// All versions that one process may hold, as they come.
std::vector<ReadLease> hold_what_it_may(const Array& array) {
  std::vector<ReadLease> held;
  try {
    while (true) {
      ReadOptions newer;
      newer.newer_than = held.empty() ? 0 : held.back().version();
      held.push_back(array.read(newer));
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::TooManyHeld) throw;
    return held;
  }
}

void read_greedily(const Options& options, SharedPage& page) {
  page.meet();  // the arrays are there
  const Client client = connect(options);
  std::vector<std::vector<ReadLease>> held;
  for (const Size& size : kSizes) {
    held.push_back(hold_what_it_may(client.open(kept_name(size))));
    page.pong.fetch_add(1);
  }
  page.meet();  // what was to be measured is
}

void publish(const Array& array, const Size& size, int value) {
  WriteLease lease = array.write();
  std::memset(lease.data(), value, static_cast<std::size_t>(size.bytes));
  lease.publish();
}

void measure_beside_readers(const Options& options, const Client& client, SharedPage& page,
                            Report& report) {
  std::vector<Array> alone, kept;
  for (const Size& size : kSizes) {
    alone.push_back(client.create(bytes_array(kept_name(size) + "/alone", size.bytes)));
    kept.push_back(client.create(bytes_array(kept_name(size), size.bytes)));
  }
  page.meet();
  for (std::size_t s = 0; s < std::size(kSizes); ++s) {
    while (page.pong.load() < (s + 1) * kReaders) publish(kept[s], kSizes[s], 0);
  }
  for (int block = 0; block < options.blocks; ++block) {
    for (std::size_t s = 0; s < std::size(kSizes); ++s) {
      const Size& size = kSizes[s];
      const int rounds = options.pick(20'000, 2'000, 5) / (size.bytes > 1 << 20 ? 50 : 1) + 1;
      const auto measure = [&](const char* who, const Array& array) {
        report.add(fmt::format("{}.{}", who, size.name),
                   median_ns(rounds, [&](int i) { publish(array, size, i); }));
      };
      measure("alone", alone[s]);
      measure("beside", kept[s]);
    }
  }
  page.meet();
}

void measure_pins(const Options& options, const Client& client, Report& report) {
  const Array array = client.create(bytes_array("bench/keep/pin", 4096));
  array.write().publish();
  const int rounds = options.pick(1'000'000, 100'000, 100);
  for (int block = 0; block < options.blocks; ++block) {
    report.add("hold", ns_per_round(rounds, [&](int) {
                 const ReadLease lease = array.read();
                 benchmark::DoNotOptimize(lease.data());
               }));
    report.add("pin", ns_per_round(rounds, [&](int) {
                 const ReadLease lease = array.read();
                 const Pin pin = lease.pin();
                 benchmark::DoNotOptimize(lease.data());
               }));
  }
}

void measure_protection(const Options& options, const Client& client, Report& report) {
  constexpr Size kProtected[] = {{"4KiB", 4 << 10}, {"64MiB", 64 << 20}};
  for (const Size& size : kProtected) {
    const Array array =
        client.create(bytes_array(fmt::format("bench/keep/protected/{}", size.name), size.bytes));
    const bool small = size.bytes < 1 << 20;
    const int rounds = small ? options.pick(20'000, 2'000, 5) : options.pick(20, 5, 1);
    for (std::uint32_t i = 0; i < array.slots(); ++i)
      publish(array, size, 1);  // its memory is there
    for (int block = 0; block < options.blocks; ++block) {
      std::vector<double> protecting, whole;
      for (int i = 0; i < rounds; ++i) {
        whole.push_back(once_ns([&] {
          WriteLease lease = array.write();
          const Pin pin = lease.pin();
          protecting.push_back(once_ns([&] { lease.publish(); }));
        }));
      }
      report.add(fmt::format("protect.{}", size.name), percentile(protecting, 0.5));
      report.add(fmt::format("protect.whole.{}", size.name), percentile(whole, 0.5));
      WriteLease lease = array.write();
      report.add(fmt::format("fill.{}", size.name), median_ns(rounds, [&](int i) {
                   std::memset(lease.data(), i, static_cast<std::size_t>(size.bytes));
                   benchmark::ClobberMemory();
                 }));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  SharedPage& page = new_shared_page(kReaders + 1);
  Report report("bench_keep");
  report.note("readers", fmt::format("{}, which hold all they may and sleep", kReaders));
  const Processes processes(kReaders, [&](int) { read_greedily(options, page); });
  const Client client = connect(options);
  measure_beside_readers(options, client, page, report);
  measure_pins(options, client, report);
  measure_protection(options, client, report);
  report.print();
  return 0;
}
