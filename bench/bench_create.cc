// Creating an array of 4 KiB and giving it back, while few and many others live, against one small
// call to the daemon.

#include <memlease/memlease.h>

#include "bench/environment.h"
#include "bench/report.h"
#include "fmt/format.h"

namespace {

using namespace memlease;
using namespace memlease::bench;

template <typename Fn>
double once_ns(Fn fn) {
  const std::uint64_t start = ticks();
  fn();
  return static_cast<double>(ticks() - start) * ns_per_tick();
}

void measure(const Client& client, int live, int rounds, Report& report) {
  std::vector<double> create, withdraw, call;
  const CreateOptions what = bytes_array("bench/create/one", 4096);
  for (int i = 0; i < rounds; ++i) {
    call.push_back(once_ns([&] { client.exists("bench/none"); }));
    std::optional<Array> array;
    create.push_back(once_ns([&] { array = client.create(what); }));
    withdraw.push_back(once_ns([&] { array->withdraw(); }));
  }
  report.add_distribution(fmt::format("create.{}_live", live), create);
  report.add_distribution(fmt::format("withdraw.{}_live", live), withdraw);
  report.add_distribution(fmt::format("call.{}_live", live), call);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const int rounds = options.quick ? 200 : 1000;
  Report report("bench_create");
  const Client client = connect(options);
  std::vector<Array> lives;
  for (const int live : {1, 1000, options.quick ? 3000 : 30'000}) {
    while (static_cast<int>(lives.size()) < live) {
      CreateOptions what = bytes_array(fmt::format("bench/create/{}", lives.size()), 64);
      what.slots = 1;
      lives.push_back(client.create(what));
    }
    for (int block = 0; block < options.blocks; ++block) measure(client, live, rounds, report);
  }
  report.note("most live arrays", fmt::format("{}", lives.size()));
  report.print();
  return 0;
}
