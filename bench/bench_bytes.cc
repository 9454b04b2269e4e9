// A producer fills 1 KiB to 1 GiB, a consumer gets it, and looks at the first word or sums all of
// it. Against a stream of gRPC's, and against summing private memory that another thread of the
// same process has filled: the bytes are in another CPU's cache, too. The array's two slots take
// turns, and so do two buffers there, as caches serve one buffer better; that one is measured, too.

#include <immintrin.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "bench/carrier.h"
#include "bench/payload.h"
#include "bench/process.h"
#include "bench/report.h"
#include "bench/timing.h"
#include "benchmark/benchmark.h"
#include "fmt/format.h"

namespace {

using namespace memlease;
using namespace memlease::bench;
using Use = Carrier::Use;

struct Case {
  std::string size;
  std::size_t bytes;
  int rounds;  // in a block
  std::string kind;
  std::unique_ptr<Carrier> carrier;
};

std::vector<Case> make_cases(const Options& options) {
  const std::pair<const char*, int> sizes[] = {{"1KiB", 10},  {"32KiB", 15},  {"1MiB", 20},
                                               {"16MiB", 24}, {"256MiB", 28}, {"1GiB", 30}};
  std::vector<Case> cases;
  for (const auto& [name, exponent] : sizes) {
    if (exponent > options.pick(30, 28, 30)) continue;
    const std::size_t bytes = std::size_t{1} << options.pick(exponent, exponent, 10);
    const std::size_t budget = std::size_t{1} << options.pick(28, 26, 0);
    const int rounds = static_cast<int>(std::clamp<std::size_t>(budget / bytes, 1, 200));
    cases.push_back({name, bytes, rounds, "memlease",
                     array_carrier(fmt::format("bench/bytes/{}", name), bytes / 8)});
    cases.push_back(
        {name, bytes, rounds, "grpc",
         grpc_carrier(fmt::format("{}/bench-{}.sock", options.directory, name), bytes / 8)});
  }
  return cases;
}

std::uint64_t expected(const Case& one, Use use, std::uint64_t value) {
  return use == Use::kSum ? value * (one.bytes / 8) : value;
}

// Spins for small payloads, then sleeps: gRPC has threads of its own, and a spinning CPU may slow
// the other one down.
void wait_for(const wire::Word& word, std::uint64_t value) {
  for (int i = 0; word.load() != value; ++i) {
    _mm_pause();
    if (i > 1000) usleep(50);
  }
}

// Medians of the sum of private memory, and of a copy, all warm. Threads stand where the processes
// do.
class Local {
 public:
  Local(std::vector<int> cpus, std::size_t bytes) : cpus_(std::move(cpus)) {
    for (auto& buffer : buffers_) buffer.assign(bytes / 8, 1);
  }
  // Of as many buffers in turn.
  double sum_ns(const Case& one, std::size_t buffers) {
    std::vector<double> samples;
    for (int i = 0; i < one.rounds; ++i) {
      const Words words = part(turn_++ % buffers, one);
      std::thread([&] {
        pin(cpus_.front());
        fill(words, static_cast<std::uint64_t>(i));
      }).join();
      samples.push_back(once_ns([&] { benchmark::DoNotOptimize(sum(words)); }));
    }
    return percentile(samples, 0.5);
  }
  double copy_ns(const Case& one) {
    return median_ns(one.rounds, [&](int) {
      std::memcpy(buffers_[1].data(), buffers_[0].data(), one.bytes);
      benchmark::DoNotOptimize(buffers_[1].data());
      benchmark::ClobberMemory();
    });
  }

 private:
  Words part(std::size_t buffer, const Case& one) {
    return Words(buffers_.at(buffer)).first(one.bytes / 8);
  }
  const std::vector<int> cpus_;
  std::array<std::vector<std::uint64_t>, 2> buffers_;
  std::size_t turn_ = 0;
};

// Calls fn(case, use, rounds, block) in the order that both ends keep. Block -1 warms the pages of
// both slots up.
template <typename Fn>
void for_each_course(const Options& options, std::vector<Case>& cases, Fn fn) {
  for (int block = -1; block < options.blocks; ++block) {
    for (Case& one : cases) {
      if (block == -1) {
        fn(one, Use::kSum, 3, block);
        continue;
      }
      fn(one, Use::kLook, one.rounds, block);
      fn(one, Use::kSum, one.rounds, block);
    }
  }
}

void produce(const Options& options, std::vector<Case>& cases, SharedPage& page) {
  for (Case& one : cases) one.carrier->begin_sending(options);
  pin(cpus().front());  // not before: gRPC's threads shall go where they like
  std::uint64_t value = 0;
  for_each_course(options, cases, [&](Case& one, Use, int rounds, int) {
    page.meet();
    for (int i = 0; i < rounds; ++i) {
      fill(one.carrier->prepare(), ++value);
      page.ping.store(ticks());
      one.carrier->send();
      wait_for(page.pong, value);
    }
  });
  for (Case& one : cases) one.carrier->end();
}

void consume(const Options& options, std::vector<Case>& cases, SharedPage& page) {
  for (Case& one : cases) one.carrier->begin_receiving(options);
  const std::vector<int> places = cpus();
  pin(places.back());
  Local local(places, cases.back().bytes);
  Report report("bench_bytes");
  std::uint64_t value = 0;
  for_each_course(options, cases, [&](Case& one, Use use, int rounds, int block) {
    page.meet();
    std::map<std::string, std::vector<double>> samples;
    for (int i = 0; i < rounds; ++i) {
      const Carrier::Received received = one.carrier->receive(use);
      const std::uint64_t sent = page.ping.load();
      if (received.value != expected(one, use, ++value)) {
        std::fprintf(stderr, "bench: %s brought other bytes\n", one.kind.c_str());
        std::exit(1);
      }
      page.pong.store(value);
      if (use == Use::kLook) {
        samples["get"].push_back(ns_between(sent, received.got_ticks));
      } else {
        samples["get_and_sum"].push_back(ns_between(sent, received.ended_ticks));
        if (one.kind == "memlease") {
          samples["sum"].push_back(ns_between(received.got_ticks, received.ended_ticks));
        }
      }
    }
    if (block == -1) return;
    for (auto& [what, values] : samples) {
      report.add(fmt::format("{}.{}.{}", one.kind, what, one.size), percentile(values, 0.5));
    }
    if (use != Use::kSum || one.kind != "memlease") return;
    report.add("local.sum." + one.size, local.sum_ns(one, 2));
    report.add("local.sum_of_one." + one.size, local.sum_ns(one, 1));
    report.add("local.copy." + one.size, local.copy_ns(one));
  });
  for (Case& one : cases) one.carrier->end();
  report.note("pinned", "producer and consumer; not gRPC's threads");
  report.print();
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  ns_per_tick();
  SharedPage& page = new_shared_page(2);
  std::vector<Case> cases = make_cases(options);
  const Processes both(2, [&](int index) {
    index == 0 ? produce(options, cases, page) : consume(options, cases, page);
  });
  return 0;
}
