// Creating an array of 4 KiB and giving it back, against one small call to the daemon: the only one
// of the process, and one beside another, whose pages and memory are mapped already. What many
// other arrays change about that is bench_scale's.

#include <memlease/memlease.h>

#include <optional>

#include "bench/environment.h"
#include "bench/report.h"
#include "bench/timing.h"

int main(int argc, char** argv) {
  using namespace memlease;
  using namespace memlease::bench;
  const Options options = parse(argc, argv);
  const int rounds = options.pick(2'000, 300, 5);
  Report report("bench_create");
  const Client client = connect(options);
  const CreateOptions what = bytes_array("bench/create", 4096);
  for (int block = 0; block < options.blocks; ++block) {
    std::vector<double> create, withdraw, call, beside, beside_call;
    for (int i = 0; i < rounds; ++i) {
      std::optional<Array> array;
      call.push_back(once_ns([&] { client.exists("bench/none"); }));
      create.push_back(once_ns([&] { array = client.create(what); }));
      withdraw.push_back(once_ns([&] { array->withdraw(); }));
    }
    const Array other = client.create(bytes_array("bench/other", 4096));
    for (int i = 0; i < rounds; ++i) {
      std::optional<Array> array;
      beside_call.push_back(once_ns([&] { client.exists("bench/none"); }));
      beside.push_back(once_ns([&] { array = client.create(what); }));
      array->withdraw();
    }
    other.withdraw();
    report.add_distribution("create", create);
    report.add_distribution("beside", beside);
    report.add_distribution("beside.call", beside_call);
    report.add_distribution("withdraw", withdraw);
    report.add_distribution("call", call);
  }
  report.print();
  return 0;
}
