// What leases of GPU arrays cost once they run, in calls: on the CUDA stand-in, which counts them
// and needs no GPU; and how often processes wake up that wait for a version of such an array, or of
// its replica. It has a daemon of its own. No times: those of a stand-in would mean nothing.

#include <chrono>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "bench/environment.h"
#include "bench/report.h"
#include "bench/wakeups.h"
#include "fmt/format.h"
#include "tests/device/call_counts.h"
#include "tests/support/in_build.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"

namespace {

using namespace memlease::bench;
using memlease::testing::calls_of;
using memlease::testing::each_cycle;
using memlease::testing::Peer;

// Those that wait for the GPU on the host.
const std::set<std::string> kHostWaits{"cudaDeviceSynchronize", "cudaStreamSynchronize",
                                       "cudaEventSynchronize", "cudaMemcpy", "cudaFree"};

std::string must(Peer& peer, const std::string& command) {
  const auto answer = peer.ask(command);
  if (answer.ok()) return answer.text;
  fmt::print(stderr, "{}: {}\n", command, answer.describe());
  std::exit(1);
}

// Those that look whether a stream may be used at all, and leave the thread's context and capture
// mode as they are. None of them reaches the GPU.
const std::set<std::string> kChecks{"cudaStreamGetDevice", "cudaStreamIsCapturing",
                                    "cuStreamGetCtx",      "cuCtxGetCurrent",
                                    "cuCtxGetDevice",      "cuThreadExchangeStreamCaptureMode"};

struct Cost {
  double order = 0;
  double checks = 0;
  double host_waits = 0;
};

Cost cost_of(const std::map<std::string, double>& each) {
  Cost cost;
  for (const auto& [name, count] : each) {
    double& sum = kHostWaits.contains(name) ? cost.host_waits
                  : kChecks.contains(name)  ? cost.checks
                                            : cost.order;
    sum += count;
  }
  return cost;
}

// Reads of a replica on the host, whose version another process goes on having on the GPU.
void add_current_replica(const fakecuda::PrivateWorld& world, Peer& reader, const Options& options,
                         int cycles, Report& report) {
  const auto number = [&](const char* what) { return std::stod(must(reader, what)); };
  const auto read = [&] {
    must(reader, "read h -");
    must(reader, "release h");
  };
  must(reader, "on a host h");
  read();  // copies
  for (int block = 0; block < options.blocks; ++block) {
    const auto before = calls_of(world, reader.pid());
    const double copies = number("copies");
    const double daemon = number("calls");
    for (int i = 0; i < cycles; ++i) read();
    double cuda = 0;
    for (const auto& call : each_cycle(before, calls_of(world, reader.pid()), cycles)) {
      cuda += call.second;
    }
    report.add("replica.cuda", cuda);
    report.add("replica.copies", (number("copies") - copies) / cycles);
    report.add("replica.daemon", (number("calls") - daemon) / cycles);
  }
}

// Processes that wait for the next version of array a, which is written on a GPU and on the host:
// there, or here.
void add_wakeups(Peer& writer, const std::string& directory, const Options& options,
                 Report& report) {
  constexpr int kWaiting = 20;
  const auto pause = [](double s) {
    std::this_thread::sleep_for(std::chrono::duration<double>(s));
  };
  const double seconds = options.pick(10.0, 3.0, 0.1);
  must(writer, "on a host h");
  must(writer, "write h -");
  must(writer, "publish h");
  for (const std::string where : {"gpu", "replica"}) {
    const std::string name = where == "gpu" ? "a" : "h";
    const auto next = std::stoull(must(writer, "version a")) + 1;
    std::vector<Peer> peers;
    std::vector<pid_t> pids;
    for (int i = 0; i < kWaiting; ++i) {
      Peer& peer = peers.emplace_back(directory);
      pids.push_back(peer.pid());
      must(peer, "connect signals");
      if (where == "replica") must(peer, "on a host h");
      peer.say(fmt::format("read_version {} {}", name, next));
    }
    pause(options.pick(5.0, 2.0, 0.1));
    const Wakeups wakeups(pids);
    pause(seconds);
    report.add("wakeups." + where, static_cast<double>(wakeups.count()) / seconds / kWaiting);
    must(writer, "write a s");
    must(writer, "publish a");
    for (Peer& peer : peers) peer.answer();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const int cycles = options.pick(500, 100, 5);
  constexpr int kReaders = 2;
  const fakecuda::PrivateWorld world;
  setenv("LD_LIBRARY_PATH", memlease::testing::in_build("fakecuda").c_str(), 1);
  const memlease::testing::PrivateDaemon daemon;
  Report report("bench_gpu_calls");
  {
    Peer writer(daemon.directory());
    Peer reader(daemon.directory());
    Peer other(daemon.directory());
    for (Peer* peer : {&writer, &reader, &other}) must(*peer, "connect");
    must(writer, "create a 3 1024 cuda:0");
    const auto cycle = [&](int times) {
      for (int i = 0; i < times; ++i) {
        must(writer, "write a s");
        must(writer, "publish a");
        for (Peer* peer : {&reader, &other}) {
          must(*peer, "read a r");
          must(*peer, "release a");
        }
        must(other, "synchronize r");
      }
    };
    cycle(10);
    for (int block = 0; block < options.blocks; ++block) {
      const auto writes = calls_of(world, writer.pid());
      const auto reads = calls_of(world, reader.pid());
      const double daemon_writes = std::stod(must(writer, "calls"));
      const double daemon_reads = std::stod(must(reader, "calls"));
      cycle(cycles);
      const Cost write = cost_of(each_cycle(writes, calls_of(world, writer.pid()), cycles));
      const Cost read = cost_of(each_cycle(reads, calls_of(world, reader.pid()), cycles));
      report.add("write.daemon", (std::stod(must(writer, "calls")) - daemon_writes) / cycles);
      report.add("read.daemon", (std::stod(must(reader, "calls")) - daemon_reads) / cycles);
      report.add("write.order", write.order);
      report.add("read.order", read.order);
      report.add("write.checks", write.checks);
      report.add("read.checks", read.checks);
      report.add("write.host_waits", write.host_waits);
      report.add("read.host_waits", read.host_waits);
      // Wait for the current version and for each reader, record; wait for the version, record.
      report.add("write.least", 2 + kReaders);
      report.add("read.least", 2);
      report.add("segment.opens",
                 static_cast<double>(world->calls("cudaIpcOpenMemHandle", reader.pid())));
    }
    add_current_replica(world, reader, options, cycles, report);
    add_wakeups(writer, daemon.directory(), options, report);
  }
  report.note("readers of another process", std::to_string(kReaders));
  report.print();
  return 0;
}
