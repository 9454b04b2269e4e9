// pthread_cancel() of threads that call the library: it ends the thread, in its own waits or after
// a call, and never the process.
#include <memlease/memlease.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>

#include "gtest/gtest.h"
#include "tests/support/error_of.h"
#include "tests/support/options_for.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

using namespace std::chrono_literals;

struct Victim {
  std::function<void()> call;
  std::atomic<unsigned> calls{0};
};

void* call_for_ever(void* its) {
  Victim& victim = *static_cast<Victim*>(its);
  for (;;) {
    ++victim.calls;
    victim.call();
    pthread_testcancel();
  }
}

// At another moment of the call each time.
void cancel_again_and_again(const std::function<void()>& call) {
  for (int round = 0; round < 60; ++round) {
    Victim victim{call};
    pthread_t thread{};
    ASSERT_EQ(pthread_create(&thread, nullptr, call_for_ever, &victim), 0);
    while (victim.calls < 2) std::this_thread::yield();
    std::this_thread::sleep_for(round * 20us);
    ASSERT_EQ(pthread_cancel(thread), 0);
    void* result = nullptr;
    ASSERT_EQ(pthread_join(thread, &result), 0);
    EXPECT_EQ(result, PTHREAD_CANCELED);
  }
}

class CancelledThreads : public ::testing::Test {
 protected:
  CancelledThreads() {
    CreateOptions options;
    options.name = "a";
    options.dtype = dtype_of<std::uint64_t>();
    options.shape = {8};
    array.emplace(client.create(options));
  }
  void TearDown() override {
    array->write(1s).publish();
    EXPECT_EQ(client.list().size(), 1U);
  }

  PrivateDaemon daemon;
  Client client = Client::connect(options_for(daemon));
  std::optional<Array> array;
};

TEST_F(CancelledThreads, InACallOfTheDaemon) {
  cancel_again_and_again([this] { static_cast<void>(client.list()); });
}

TEST_F(CancelledThreads, InAWaitForAName) {
  cancel_again_and_again(
      [this] { error_of([&] { static_cast<void>(client.wait_for("b", 1ms)); }); });
}

TEST_F(CancelledThreads, InAWaitForAVersion) {
  cancel_again_and_again([this] {
    ReadOptions options;
    options.newer_than = 1000;
    options.timeout = 1ms;
    error_of([&] { static_cast<void>(array->read(options)); });
  });
}

TEST_F(CancelledThreads, InAWrite) {
  cancel_again_and_again([this] { array->write().publish(); });
}

}  // namespace
}  // namespace memlease::testing
