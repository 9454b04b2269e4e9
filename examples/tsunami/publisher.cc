#include "publisher.h"

#include <cstdint>
#include <string>

namespace tsunami {
namespace {

// Rule of thumb: slow readers + 2. The demo has three readers, and each may be slow.
constexpr int kSlots = 5;

}  // namespace

Publisher::Publisher(const memlease::Client& client, int rank, std::size_t rows,
                     std::size_t columns)
    : cells_(rows * columns),
      surface_(client.create(
          {.name = "tsunami/rank" + std::to_string(rank) + "/surface",
           .dtype = memlease::dtype_of<float>(),
           .shape = {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)},
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

}  // namespace tsunami
