// A daemon that has long been at work: arrays, sessions and connections come and go, and nothing
// grows by that. MEMLEASE_SOAK_OPERATIONS sets the length.
#include <memlease/memlease.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/channel/attach_client.h"
#include "fmt/format.h"
#include "gtest/gtest.h"
#include "server/core/history.h"
#include "tests/integration/raw_control.h"
#include "tests/support/goal.h"
#include "tests/support/number_from.h"
#include "tests/support/percentile.h"
#include "tests/support/private_daemon.h"
#include "wire/error.h"

namespace memlease::testing {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t operations() {
  return number_from("MEMLEASE_SOAK_OPERATIONS", goal(6'000, 10'000'000));
}

struct Size {
  std::uint64_t memory_bytes = 0;  // of its own
  std::size_t files = 0;
  std::size_t threads = 0;
};

// Its rounds are of six operations. `leaves`: they leave their arrays to the daemon.
class Soak {
 public:
  explicit Soak(bool leaves) : leaves_(leaves) {
    connect();
    // Until the daemon has as much history as it keeps.
    for (std::size_t i = 0; i < server::History::kMostEvents / 2; ++i) {
      create();
      client_->withdraw(name());
      ++rounds_;
    }
  }

  // Up to so many operations. The 99th percentile of how long a round has taken.
  std::chrono::nanoseconds run(std::uint64_t operations) {
    std::vector<std::chrono::nanoseconds> took;
    for (std::uint64_t i = 0; i < operations; i += 6) {
      const Clock::time_point begin = Clock::now();
      round();
      took.push_back(Clock::now() - begin);
    }
    return percentile(took, 99);
  }
  Size size() const {
    return {daemon_.memory_bytes("RssAnon"), daemon_.open_files(), daemon_.threads()};
  }

 private:
  void connect() {
    ConnectOptions options;
    options.directory = daemon_.directory();
    options.start = false;
    client_ = Client::connect(options);
  }
  std::string name() const { return fmt::format("soak/{}", rounds_); }
  Array create() {
    CreateOptions options;
    options.name = name();
    options.dtype = dtype_of<double>();
    options.shape = {static_cast<std::int64_t>(1 + rounds_ % 4000)};
    options.lifetime = Lifetime::Persistent;
    return client_->create(options);
  }

  void round() {
    {
      const Array made = create();
      const Array opened = client_->open(name());
      made.write().publish();
      EXPECT_EQ(opened.read().version(), 1U);
      EXPECT_TRUE(client_->exists(name()));
      if (!leaves_) client_->withdraw(name());
    }
    if (++rounds_ % 50 == 0) begin_again();
  }

  // The daemon keeps the numbers of files that a process knew for as long as it is connected.
  void begin_again() {
    client_->close();
    connect();
    EXPECT_TRUE(internal::AttachClient::connect(daemon_.directory()).ok());
    EXPECT_EQ(wire::code_of(RawControl(daemon_.directory(), geteuid()).list("")),
              wire::ErrorCode::kDenied);
  }

  const bool leaves_;
  PrivateDaemon daemon_{{"--log-level=warning"}};
  std::optional<Client> client_;
  std::uint64_t rounds_ = 0;
};

// What comes and goes with calls, and is there or not when we look.
constexpr std::uint64_t kNoiseBytes = 256 * 1024;

// What the daemon has when a fifth is done, and in the end.
struct Growth {
  Size early;
  Size late;
  std::int64_t bytes() const {
    return static_cast<std::int64_t>(late.memory_bytes - early.memory_bytes);
  }
};

Growth growth_of(Soak&& soak) {
  const std::uint64_t all = operations();
  soak.run(all / 5);
  const Size early = soak.size();
  std::array<std::chrono::nanoseconds, 4> took{};
  for (auto& part : took) part = soak.run(all / 5);
  const Size late = soak.size();
  const auto us = [](std::chrono::nanoseconds time) {
    return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
  };
  reached(
      "{} operations: memory {} bytes, then {}; files {}, {}; threads {}, {}; 99 % of rounds "
      "within {} us, then {} us",
      all, early.memory_bytes, late.memory_bytes, early.files, late.files, early.threads,
      late.threads, us(took.front()), us(took.back()));
  return {early, late};
}

TEST(Soak, NothingGrows) {
  const Growth growth = growth_of(Soak(false));
  EXPECT_LE(growth.bytes(),
            static_cast<std::int64_t>(kNoiseBytes + 4096 * (operations() / 1'000'000)));
  // Of a call that has just ended; what grows grows with each of hundreds of rounds.
  constexpr std::size_t kSome = 4;
  EXPECT_LE(growth.late.files, growth.early.files + kSome);
  EXPECT_LE(growth.late.threads, growth.early.threads + kSome);
}

TEST(SoakControl, WhatIsLeftIsSeen) {
  EXPECT_GT(growth_of(Soak(true)).bytes(), static_cast<std::int64_t>(kNoiseBytes));
}

}  // namespace
}  // namespace memlease::testing
