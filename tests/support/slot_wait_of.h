// What a test's writer does while no slot is free. By itself it asks for nothing and never sleeps.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "client/slots/slot_wait.h"

namespace memlease::testing {

class SlotWaitOf final : public internal::SlotWait {
 public:
  using SleepOn =
      std::function<bool(const std::vector<wire::FutexWait>&, std::chrono::nanoseconds)>;

  explicit SlotWaitOf(SleepOn sleep = [](const auto&, auto) { return false; })
      : on_sleep(std::move(sleep)) {}
  bool map_rows() override { return on_map_rows(); }
  Grown grow(std::uint32_t slots) override { return on_grow(slots); }
  bool sleep_on(const std::vector<wire::FutexWait>& counts,
                std::chrono::nanoseconds longest) override {
    return on_sleep(counts, longest);
  }
  bool prepare(std::uint32_t slot) override { return on_prepare(slot); }

  SleepOn on_sleep;
  std::function<bool()> on_map_rows = [] { return false; };
  std::function<bool(std::uint32_t)> on_prepare = [](std::uint32_t) { return true; };
  std::function<Grown(std::uint32_t)> on_grow = [](std::uint32_t) { return Grown::kRefused; };
};

}  // namespace memlease::testing
