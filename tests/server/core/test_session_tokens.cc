// Tokens where they are compared: none is guessed, and the time that a refusal takes tells nothing.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "gtest/gtest.h"
#include "server/core/session_table.h"
#include "tests/support/goal.h"
#include "tests/support/percentile.h"
#include "wire/error.h"

namespace memlease::server {
namespace {

using testing::goal;
using testing::reached;
using Credential = std::array<std::uint8_t, 36>;

constexpr uid_t kUid = 1'000;

class SessionTokens : public ::testing::Test {
 protected:
  SessionTokens() {
    for (std::uint32_t id = 1; id <= 3; ++id) {
      auto session = std::make_unique<Session>();
      session->id = wire::SessionId{id};
      session->peer.uid = kUid;
      for (std::uint8_t& byte : session->token) byte = static_cast<std::uint8_t>(random_());
      sessions_.add(std::move(session));
    }
  }
  Credential good() const {
    Credential credential{2};
    const SessionToken& token = sessions_.find(wire::SessionId{2})->token;
    std::ranges::copy(token, credential.begin() + 4);
    return credential;
  }
  bool takes(std::span<const std::uint8_t> credential) const {
    return sessions_.authenticate(credential, kUid).ok();
  }

  std::mt19937_64 random_{18};
  SessionTable sessions_;
};

TEST_F(SessionTokens, AreNotGuessed) {
  const std::uint64_t guesses = goal(100'000, 10'000'000);
  std::uint64_t hits = 0;
  Credential guess = good();
  for (std::uint64_t i = 0; i < guesses; ++i) {
    if (i % 2 == 0) {  // a token of chance
      for (std::size_t at = 4; at < guess.size(); at += 8) {
        const std::uint64_t bits = random_();
        std::memcpy(guess.data() + at, &bits, sizeof bits);
      }
    } else {  // all but one bit are right
      guess = good();
      const std::uint64_t bit = random_() % 256;
      guess.at(4 + (bit / 8)) ^= static_cast<std::uint8_t>(1U << (bit % 8));
    }
    hits += takes(guess) ? 1 : 0;
  }
  EXPECT_EQ(hits, 0U);
  EXPECT_TRUE(takes(good()));
  reached(
      "{} guesses at the function that compares tokens, half of them with one wrong bit: {} hits",
      guesses, hits);
}

// The mean time of one kind of calls.
struct Times {
  void add(double value) {
    ++count;
    const double from_mean = value - mean;
    mean += from_mean / count;
    squares += from_mean * (value - mean);
  }
  double count = 0;
  double mean = 0;
  double squares = 0;
};

// Welch's t of the times that `compare` takes for a first and for a second value, called in random
// order. The slowest hundredth is left out: these were interrupted.
double t_of_times(std::uint64_t count, const std::array<Credential, 2>& values,
                  const std::function<bool(std::span<const std::uint8_t>)>& compare) {
  using Clock = std::chrono::steady_clock;
  std::mt19937_64 random(7);
  Credential given{};
  std::vector<std::pair<bool, double>> taken;
  taken.reserve(count);
  bool any = false;
  for (std::uint64_t i = 0; i < count; ++i) {
    const bool second = (random() & 1U) != 0;
    // Both are read each time: where they stand is not to tell.
    const auto mask = static_cast<std::uint8_t>(second ? 0xff : 0);
    for (std::size_t k = 0; k < given.size(); ++k) {
      given.at(k) = static_cast<std::uint8_t>((values[0].at(k) & ~mask) | (values[1].at(k) & mask));
    }
    const auto start = Clock::now();
    any |= compare(given);
    taken.emplace_back(second,
                       std::chrono::duration<double, std::nano>(Clock::now() - start).count());
  }
  EXPECT_FALSE(any);
  std::vector<double> all_times;
  all_times.reserve(count);
  for (const auto& [second, time] : taken) all_times.push_back(time);
  const double cut = memlease::testing::percentile(all_times, 99);
  std::array<Times, 2> times;
  for (const auto& [second, time] : taken) {
    if (time <= cut) times.at(second ? 1 : 0).add(time);
  }
  double variance = 0;
  for (const Times& each : times) variance += each.squares / (each.count - 1) / each.count;
  return (times[0].mean - times[1].mean) / std::sqrt(variance);
}

class SessionTokenTimes : public SessionTokens {
 protected:
  // Wrong in the first byte of the token, and in the last.
  std::array<Credential, 2> wrong() const {
    std::array<Credential, 2> values{good(), good()};
    values[0].at(4) ^= 0x55;
    values[1].back() ^= 0x55;
    return values;
  }
  static constexpr double kTold = 4.5;
};

TEST_F(SessionTokenTimes, DoNotTellWhereATokenIsWrong) {
  const std::uint64_t count = goal(20'000, 1'000'000);
  const double t = t_of_times(
      count, wrong(), [&](std::span<const std::uint8_t> credential) { return takes(credential); });
  EXPECT_LT(std::abs(t), kTold);
  reached(
      "{} comparisons of tokens that are wrong in the first or in the last byte: Welch's t is "
      "{:.2f}",
      count, t);
}

// A comparison that ends at the first difference would be found out.
TEST_F(SessionTokenTimes, ControlWouldTellOfAComparisonThatEndsEarly) {
  const Credential right = good();
  const std::uint64_t count = goal(20'000, 1'000'000);
  const double t = t_of_times(count, wrong(), [&](std::span<const std::uint8_t> credential) {
    for (std::size_t i = 0; i < credential.size(); ++i) {
      if (credential[i] != right.at(i)) return false;
    }
    return true;
  });
  EXPECT_GT(std::abs(t), kTold);
  reached("the same for a comparison that ends at the first difference: Welch's t is {:.1f}", t);
}

}  // namespace
}  // namespace memlease::server
