// Opening an array that another process has: the call, the mapping, the subscription and the first
// byte, in a process that has opened nothing yet; once more in the same segment; and again when it
// is open already. Against one small call to the daemon, and against a descriptor passed and
// mapped. For the large ones also with all bytes read, as mapping alone moves none.

#include <fcntl.h>
#include <memlease/memlease.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "bench/environment.h"
#include "bench/payload.h"
#include "bench/process.h"
#include "bench/report.h"
#include "bench/timing.h"
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

std::int64_t size_of(const Size& size, const Options& options) {
  return options.pick(size.bytes, size.bytes, std::min<std::int64_t>(size.bytes, 1 << 20));
}

std::span<const std::uint64_t> words_at(const void* data, std::int64_t bytes) {
  return {static_cast<const std::uint64_t*>(data), static_cast<std::size_t>(bytes) / 8};
}

void touch(const Array& array, std::int64_t bytes = 8) {
  const ReadLease lease = array.read();
  benchmark::DoNotOptimize(sum(words_at(lease.data(), bytes)));
}

std::string name_of(const Size& size, int number) {
  return fmt::format("bench/open/{}/{}", size.name, number);
}

// A descriptor over a socket, there, mapped and read: what any sharing by memfd must do.
void pass_and_map(const int (&ends)[2], int fd, std::int64_t size_bytes, std::int64_t read_bytes) {
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
  require(sendmsg(ends[0], &message, 0) == 1 && recvmsg(ends[1], &message, MSG_CMSG_CLOEXEC) == 1,
          "bench: passing a descriptor");
  const cmsghdr* const passed = CMSG_FIRSTHDR(&message);
  if (passed != nullptr) std::memcpy(&received, CMSG_DATA(passed), sizeof received);
  const auto length = static_cast<std::size_t>(size_bytes);
  void* data_at = mmap(nullptr, length, PROT_READ, MAP_SHARED, received, 0);
  require(data_at != MAP_FAILED, "bench: mapping a descriptor");
  benchmark::DoNotOptimize(sum(words_at(data_at, read_bytes)));
  munmap(data_at, length);
  close(received);
}

struct Figures {
  double first[std::size(kSizes)];
  double first_read[std::size(kSizes)];  // all bytes of another array of that size
  double second;                         // another array, whose segment is mapped
  double again;                          // an array that is open
  double call;
  double descriptor;
  double descriptor_read[std::size(kSizes)];
  double rmw;
};
static_assert(sizeof(Figures) <= sizeof(SharedPage::values));

// Numbers of arrays of one size.
constexpr int kFirst = 0;
constexpr int kRead = 1;
constexpr int kArrays = 6;  // from 2 on, of the smallest size alone: to be opened second

void measure_rivals(const Options& options, int fd, Figures& figures) {
  int ends[2];
  require(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0, "bench: socketpair");
  figures.descriptor =
      median_ns(options.pick(200, 200, 2), [&](int) { pass_and_map(ends, fd, 4096, 8); });
  for (std::size_t i = 0; i < std::size(kSizes); ++i) {
    const std::int64_t bytes = size_of(kSizes[i], options);
    figures.descriptor_read[i] = once_ns([&] { pass_and_map(ends, fd, bytes, bytes); });
  }
  close(ends[0]);
  close(ends[1]);
  wire::Word word{0};
  figures.rmw = ns_per_round(options.pick(100'000, 100'000, 100), [&](int) { word.fetch_add(1); });
}

// In a process of its own. `fd`: a file as large as the largest array, all there.
void measure(const Options& options, int fd, bool reads, Figures& figures) {
  const Client client = connect(options);
  client.exists("bench/none");  // the first call makes gRPC's connection
  const int rounds = options.pick(200, 200, 2);
  std::vector<Array> opened;
  const auto open_ns = [&](const Size& size, int number, std::int64_t read_bytes) {
    return once_ns([&] {
      opened.push_back(client.open(name_of(size, number)));
      touch(opened.back(), read_bytes);
    });
  };
  for (std::size_t i = 0; i < std::size(kSizes); ++i) {
    figures.first[i] = open_ns(kSizes[i], kFirst, 8);
  }
  std::vector<double> second;
  for (int i = kRead + 1; i < kArrays; ++i) second.push_back(open_ns(kSizes[0], i, 8));
  figures.second = percentile(second, 0.5);
  figures.again =
      median_ns(rounds, [&](int) { static_cast<void>(client.open(name_of(kSizes[0], kFirst))); });
  figures.call = median_ns(rounds, [&](int) { client.exists("bench/none"); });
  if (!reads) return;
  for (std::size_t i = 0; i < std::size(kSizes); ++i) {
    figures.first_read[i] = open_ns(kSizes[i], kRead, size_of(kSizes[i], options));
  }
  measure_rivals(options, fd, figures);
}

// Holds the arrays until the end.
void own(const Options& options, SharedPage& page) {
  const Client client = connect(options);
  std::vector<Array> arrays;
  for (const Size& size : kSizes) {
    for (int i = 0; i < (&size == &kSizes[0] ? kArrays : kRead + 1); ++i) {
      CreateOptions what = bytes_array(name_of(size, i), size_of(size, options));
      what.slots = 1;
      arrays.push_back(client.create(what));
      arrays.back().write().publish();
    }
  }
  page.meet();
  page.meet();
}

int full_file(std::int64_t bytes) {
  const int fd = memfd_create("bench", MFD_CLOEXEC);
  require(fd >= 0 && fallocate(fd, 0, 0, bytes) == 0, "bench: a file in memory");
  return fd;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const int processes = options.pick(15, 3, 1);  // a block's figure is the median of so many
  ns_per_tick();
  auto& figures = *reinterpret_cast<Figures*>(new_shared_page(1).values);
  SharedPage& page = new_shared_page(2);
  const Processes owner(1, [&](int) { own(options, page); });
  const int fd = full_file(size_of(kSizes[std::size(kSizes) - 1], options));
  page.meet();
  Report report("bench_open");
  for (int block = 0; block < options.blocks; ++block) {
    std::map<std::string, std::vector<double>> samples;
    for (int i = 0; i < processes; ++i) {
      // All bytes are read once a block: that takes long, and scatters little.
      const bool reads = i == 0;
      {
        const Processes opener(1, [&](int) { measure(options, fd, reads, figures); });
      }
      for (std::size_t s = 0; s < std::size(kSizes); ++s) {
        const char* size = kSizes[s].name;
        samples[fmt::format("open.first.{}", size)].push_back(figures.first[s]);
        if (!reads) continue;
        samples[fmt::format("open.first.{}.read", size)].push_back(figures.first_read[s]);
        samples[fmt::format("descriptor.{}.read", size)].push_back(figures.descriptor_read[s]);
      }
      samples["open.mapped"].push_back(figures.second);
      samples["open.again"].push_back(figures.again);
      samples["call"].push_back(figures.call);
      if (!reads) continue;
      samples["descriptor"].push_back(figures.descriptor);
      samples["descriptor+call"].push_back(figures.descriptor + figures.call);
      samples["rmw"].push_back(figures.rmw);
    }
    for (auto& [name, values] : samples) report.add(name, percentile(values, 0.5));
  }
  page.meet();
  report.print();
  return 0;
}
