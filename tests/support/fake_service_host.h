// The daemon around a core of its own, for services. Tells what they wanted of it; a test looks at
// that, and at the core, while no call is under way.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/rpc/service_host.h"
#include "tests/server/core/broker_world.h"
#include "tests/support/fake_gpu.h"
#include "wire/error.h"

namespace memlease::testing {

class FakeServiceHost : public server::ServiceHost {
 public:
  void with_broker(const std::function<void(server::Broker&)>& fn) override {
    std::vector<server::HistoryEvent> events;
    {
      const std::lock_guard lock(mutex_);
      held_ = true;
      fn(world.broker);
      held_ = false;
      ++turns;
      const auto page = world.broker.history().after(announced_, server::History::kMostEvents);
      announced_ = page.through;
      for (const server::HistoryEvent* event : page.events) events.push_back(*event);
    }
    history_waits_.happened(events);
  }
  // Finds the one GPU that there is.
  absl::Status prepare_device(const std::string& device) override {
    prepared.push_back(device);
    if (device != gpu.device()) {
      return wire::make_error(wire::ErrorCode::kUnsupported, "there is no other GPU");
    }
    world.broker.add_device(gpu, {});
    return absl::OkStatus();
  }
  void grow(const server::SegmentPool::Growth& growth, const Grown& fn) override {
    ++grown;
    server::DeviceBackend& backend =
        growth.device == gpu.device() ? static_cast<server::DeviceBackend&>(gpu) : world.memory;
    with_broker([&](server::Broker& broker) {
      server::SegmentPool::Growth made = growth;
      auto memory = server::SegmentPool::make(backend, made);
      fn(broker, broker.add_memory(made, std::move(memory)));
      broker.return_surplus(growth.device);
    });
  }
  void await_given_back(std::optional<uid_t> /*uid*/,
                        std::chrono::steady_clock::time_point /*until*/) override {
    const std::lock_guard lock(mutex_);
    ++awaited;
    world.try_garbage();
  }
  bool may_be_relieved() const override { return relieving; }
  void await_relief(std::chrono::steady_clock::time_point /*until*/) override {
    relieving = false;
    world.has_memory = true;
    ++awaited;
  }
  server::HistoryWaits& history_waits() override { return history_waits_; }
  absl::Status evict(wire::SessionId session) override {
    evicted.push_back(session);
    return absl::OkStatus();
  }
  server::DaemonFacts facts() const override { return {"1.2.3", "", "/here", 0, ""}; }
  std::uint64_t host_waits_ms() const override { return 0; }
  std::string metrics() override { return "metrics 1\n"; }
  server::CallErrors& call_errors() override { return errors; }
  server::Log& log() override { return log_; }
  server::UidLogLimiters& log_lines() override { return log_lines_; }

  // Whether some call has the core now.
  bool held() const { return held_; }

  FakeGpu gpu{"GPU-1"};  // outlives the broker's segments
  BrokerWorld world;
  std::vector<std::string> prepared;
  int grown = 0;
  int awaited = 0;  // times that somebody waited for what had gone
  std::atomic<bool> relieving{false};
  int turns = 0;  // in which somebody had the core
  std::vector<wire::SessionId> evicted;
  server::CallErrors errors;

 private:
  std::mutex mutex_;
  std::atomic<bool> held_{false};
  std::uint64_t announced_ = 0;
  server::HistoryWaits history_waits_;
  server::UidLogLimiters log_lines_{60, std::chrono::seconds(10)};
  server::Log log_{server::LogLevel::kError, server::LogFormat::kText};
};

}  // namespace memlease::testing
