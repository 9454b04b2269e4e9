// A process that has many arrays open: what withdrawing one of them by its name costs, against the
// same among few, and what closing them all costs for each, against one small call to the daemon.
// And how long the slowest takes of many such calls, one after another.

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

struct Figures {
  double withdraw_few;
  double withdraw_many;
  double close;  // of one
  double call;
  double slowest_call;
};
static_assert(sizeof(Figures) <= sizeof(SharedPage::values));

int arrays_of(const Options& options) { return options.pick(30'000, 10'000, 300); }
int calls_of(const Options& options) { return options.pick(20'000, 10'000, 10); }

// In a process of its own, since an array that it has created keeps its session.
void measure(const Options& options, Figures& figures) {
  const int many = arrays_of(options);
  const int rounds = options.pick(500, 100, 2);
  const Client client = connect(options);
  std::vector<Array> arrays;
  const auto create = [&](const std::string& name) {
    CreateOptions what = bytes_array(name, 64);
    what.slots = 1;
    arrays.push_back(client.create(what));
  };
  const auto withdraw_ns = [&] {
    std::vector<double> samples;
    for (int i = 0; i < rounds; ++i) {
      create("bench/many/withdrawn");
      samples.push_back(once_ns([&] { client.withdraw("bench/many/withdrawn"); }));
      arrays.pop_back();
    }
    return percentile(samples, 0.5);
  };
  client.exists("bench/none");  // the first call makes gRPC's connection
  figures.withdraw_few = withdraw_ns();
  for (int i = 0; i < many; ++i) create(fmt::format("bench/many/{}", i));
  figures.withdraw_many = withdraw_ns();
  std::vector<double> calls;
  for (int i = 0; i < calls_of(options); ++i)
    calls.push_back(once_ns([&] { client.exists("bench/none"); }));
  figures.slowest_call = percentile(calls, 1);
  figures.call = median_ns(rounds, [&](int) { client.exists("bench/none"); });
  figures.close = once_ns([&] { client.close(); }) / many;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  ns_per_tick();
  auto& figures = *reinterpret_cast<Figures*>(new_shared_page(1).values);
  Report report("bench_many");
  for (int block = 0; block < options.blocks; ++block) {
    {
      const Processes process(1, [&](int) { measure(options, figures); });
    }
    report.add("withdraw.few", figures.withdraw_few);
    report.add("withdraw.many", figures.withdraw_many);
    report.add("close", figures.close);
    report.add("call", figures.call);
    report.add("call.slowest", figures.slowest_call);
  }
  report.note("arrays", std::to_string(arrays_of(options)));
  report.note("calls", std::to_string(calls_of(options)));
  report.print();
  return 0;
}
