#include "publisher.h"

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace tsunami {
namespace {

// Rule of thumb: slow readers + 2. The demo has three readers, and each may be slow.
constexpr int kSlots = 5;

}  // namespace

Publisher::Publisher(memlease::Client& client, int rank, std::size_t rows, std::size_t columns)
    : cells_(rows * columns),
      surface_(client.create({.name = "tsunami/rank" + std::to_string(rank) + "/surface",
                              .dtype = memlease::dtype_of<float>(),
                              .shape = {static_cast<std::int64_t>(rows),
                                        static_cast<std::int64_t>(columns)},
                              .slots = kSlots})) {
  if (rank == 0) {
    clock_ = client.create({.name = "tsunami/clock",
                            .dtype = memlease::dtype_of<double>(),
                            .shape = {2},
                            .slots = kSlots});
  }
}

std::span<float> Publisher::begin_step() {
  step_.emplace(surface_.write());
  return {step_->span<float, 2>().data(), cells_};
}

void Publisher::publish(double time_s, double duration_s) {
  if (clock_) {
    auto clock = clock_->write();
    double* const values = clock.span<double, 1>().data();
    values[0] = time_s;
    values[1] = duration_s;
    clock.publish();
  }
  step_->publish();
  step_.reset();
}

std::string backing_of(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char device[32] = {};
    std::uint64_t inode = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %*s %*s %31s %" SCNu64, &begin, &end,
                    device, &inode) == 4 &&
        wanted >= begin && wanted < end) {
      return std::string(device) + ":" + std::to_string(inode);
    }
  }
  throw std::runtime_error("an address of a lease is in no mapping of /proc/self/maps");
}

}  // namespace tsunami
