// Opening an array that another process has: the call, the mapping, the subscription and the first
// byte, in a process that has opened nothing yet; once more in the same segment; and again when it
// is open already. Against one small call to the daemon, and against a descriptor passed and
// mapped.

#include <memlease/memlease.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "bench/environment.h"
#include "bench/process.h"
#include "bench/report.h"
#include "benchmark/benchmark.h"
#include "fmt/format.h"

namespace {

using namespace memlease;
using namespace memlease::bench;

struct Size {
  const char* name;
  std::int64_t bytes;
};
constexpr Size kSizes[] = {{"4KiB", 4 << 10}, {"1MiB", 1 << 20}, {"1GiB", 1 << 30}};
constexpr int kOpenings = 5;

template <typename Fn>
double once_ns(Fn fn) {
  const std::uint64_t start = ticks();
  fn();
  return static_cast<double>(ticks() - start) * ns_per_tick();
}

template <typename Fn>
double median_ns(int rounds, Fn fn) {
  std::vector<double> samples;
  for (int i = 0; i < rounds; ++i) samples.push_back(once_ns([&] { fn(i); }));
  return percentile(samples, 0.5);
}

void touch(const Array& array) {
  const ReadLease lease = array.read();
  benchmark::DoNotOptimize(*static_cast<const volatile std::uint8_t*>(lease.data()));
}

std::string name_of(const Size& size, int number = 0) {
  return fmt::format("bench/open/{}/{}", size.name, number);
}

// A descriptor over a socket, there and mapped: what any sharing by memfd must do.
void pass_and_map(const int (&ends)[2], int fd) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  int received = -1;
  if (sendmsg(ends[0], &message, 0) != 1 || recvmsg(ends[1], &message, MSG_CMSG_CLOEXEC) != 1) {
    std::perror("bench: passing a descriptor");
    std::exit(1);
  }
  std::memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof received);
  void* data_at = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, received, 0);
  const std::uint8_t first = *static_cast<const volatile std::uint8_t*>(data_at);
  benchmark::DoNotOptimize(first);
  munmap(data_at, 4096);
  close(received);
}

struct Figures {
  double first[std::size(kSizes)];
  double second;  // another array, whose segment is mapped
  double again;   // an array that is open
  double call;
  double descriptor;
  double rmw;
};
static_assert(sizeof(Figures) <= sizeof(SharedPage::values));

void measure(const Options& options, int rounds, Figures& figures) {
  const Client client = connect(options);
  client.exists("bench/none");  // the first call makes gRPC's connection
  std::vector<Array> opened;
  for (std::size_t i = 0; i < std::size(kSizes); ++i) {
    figures.first[i] = once_ns([&] {
      opened.push_back(client.open(name_of(kSizes[i])));
      touch(opened.back());
    });
  }
  figures.second = median_ns(kOpenings - 1, [&](int i) {
    opened.push_back(client.open(name_of(kSizes[0], i + 1)));
    touch(opened.back());
  });
  figures.again = median_ns(rounds, [&](int) { client.open(name_of(kSizes[0])); });
  figures.call = median_ns(rounds, [&](int) { client.exists("bench/none"); });
  int ends[2];
  const int fd = memfd_create("bench", MFD_CLOEXEC);
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0 || ftruncate(fd, 4096) != 0) std::exit(1);
  figures.descriptor = median_ns(rounds, [&](int) { pass_and_map(ends, fd); });
  wire::Word word{0};
  figures.rmw = once_ns([&] {
                  for (int i = 0; i < 100'000; ++i) word.fetch_add(1);
                }) /
                100'000;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const int processes = options.quick ? 3 : 15;  // a block's figure is the median of so many
  ns_per_tick();
  SharedPage& page = new_shared_page(1);
  auto& figures = *reinterpret_cast<Figures*>(page.values);
  SharedPage& ready = new_shared_page(2);
  SharedPage& done = new_shared_page(2);
  const Processes owner(1, [&](int) {
    const Client client = connect(options);
    std::vector<Array> arrays;
    for (const Size& size : kSizes) {
      for (int i = 0; i < (size.bytes == kSizes[0].bytes ? kOpenings : 1); ++i) {
        CreateOptions what = bytes_array(name_of(size, i), size.bytes);
        what.slots = 1;
        arrays.push_back(client.create(what));
        arrays.back().write().publish();
      }
    }
    ready.meet();
    done.meet();
  });
  ready.meet();
  Report report("bench_open");
  for (int block = 0; block < options.blocks; ++block) {
    std::vector<double> first[std::size(kSizes)], second, again, call, descriptor, rmw;
    for (int i = 0; i < processes; ++i) {
      {
        const Processes opener(1, [&](int) { measure(options, 200, figures); });
      }
      for (std::size_t s = 0; s < std::size(kSizes); ++s) first[s].push_back(figures.first[s]);
      second.push_back(figures.second);
      again.push_back(figures.again);
      call.push_back(figures.call);
      descriptor.push_back(figures.descriptor);
      rmw.push_back(figures.rmw);
    }
    for (std::size_t s = 0; s < std::size(kSizes); ++s) {
      report.add(fmt::format("open.first.{}", kSizes[s].name), percentile(first[s], 0.5));
    }
    report.add("open.mapped", percentile(second, 0.5));
    report.add("open.again", percentile(again, 0.5));
    report.add("call", percentile(call, 0.5));
    report.add("descriptor+mmap", percentile(descriptor, 0.5));
    report.add("rmw", percentile(rmw, 0.5));
  }
  done.meet();
  report.print();
  return 0;
}
