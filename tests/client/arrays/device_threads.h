// Threads of one process with arrays on a fake GPU, each as far as the test lets it go.
#pragma once

#include <memlease/memlease.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/support/crash_point.h"
#include "tests/support/local_daemon.h"
#include "tests/support/words.h"

namespace memlease::testing {

// Streams go by numbers.
inline Stream stream(std::uintptr_t number) { return Stream::from_handle(number); }
inline ReadLease read_on(const Array& array, std::uintptr_t number) {
  ReadOptions options;
  options.stream = stream(number);
  return array.read(options);
}
// A version by one stream, and its read by another one.
inline void publish(const Array& array, std::uintptr_t number = 16) {
  WriteOptions options;
  options.stream = stream(number);
  array.write(options).publish();
}
inline void read(const Array& array) { read_on(array, 17).release(); }

class DeviceThreads : public ::testing::Test {
 public:
  ~DeviceThreads() override { leave_out(""); }

 protected:
  static constexpr const char* kGpu = "GPU-1";
  static constexpr std::int64_t kOwnSegment = 1 << 20;  // elements: no other array has room there

  Array create(const std::string& name, const std::string& device, std::int64_t elements = 8) {
    CreateOptions options = words(name, elements);
    options.device = device;
    return client.create(options);
  }

  // What another thread does meanwhile.
  class Running {
   public:
    explicit Running(std::function<void()> fn)
        : done_(std::async(std::launch::async, std::move(fn))) {}
    bool ended(std::chrono::milliseconds within) const {
      return done_.wait_for(within) == std::future_status::ready;
    }
    // Throws what it has thrown.
    void join() { done_.get(); }

   private:
    std::future<void> done_;
  };
  // Whether it ends though other threads stand where they are.
  bool gets_through(std::function<void()> fn) {
    Running running(std::move(fn));
    const bool through = running.ended(std::chrono::seconds(5));
    if (!through) daemon.gates.open_all();
    running.join();
    return through;
  }
  // Whether it goes on before the gate is opened. For what does wait a short look is enough.
  static bool waits(const Running& running) {
    return !running.ended(std::chrono::milliseconds(50));
  }

  LocalDaemon daemon;
  Client client = Client::connect();
};

}  // namespace memlease::testing
