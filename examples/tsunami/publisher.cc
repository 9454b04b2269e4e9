#include "publisher.h"

#include <cstdint>
#include <string>

namespace tsunami {
namespace {

// Rule of thumb: slow readers + 2. The demo has three readers, and each may be slow.
constexpr int kSlots = 5;

}  // namespace

Publisher::Publisher(const memlease::Client& client, const Block& block)
    : stream_(block.stream),
      surface_(client.create({.name = "tsunami/rank" + std::to_string(block.rank) + "/surface",
                              .dtype = memlease::dtype_of<float>(),
                              .shape = {static_cast<std::int64_t>(block.rows),
                                        static_cast<std::int64_t>(block.columns)},
                              .device = block.device,
                              .slots = kSlots})) {
  if (block.rank == 0) {
    clock_ = client.create({.name = "tsunami/clock",
                            .dtype = memlease::dtype_of<double>(),
                            .shape = {2},
                            .slots = kSlots});
  }
}

float* Publisher::begin_step() {
  step_.emplace(surface_.write({.wait = {}, .stream = stream_}));
  return step_->span<float, 2>().data();
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
