// Very many requests for more than there is, or for what cannot be: the daemon refuses them, grows
// by nothing, and its books stay exact. MEMLEASE_STORM_SEED repeats a run.
#include <algorithm>
#include <array>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "client/channel/attach_client.h"
#include "gmock/gmock.h"
#include "memlease/v1/admin.pb.h"
#include "server/core/history.h"
#include "tests/integration/hostile.h"
#include "tests/support/goal.h"
#include "tests/support/number_from.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

using Stub = v1::Control::Stub;

// Numbers about which sums and products go wrong, and small ones.
class OddNumbers {
 public:
  explicit OddNumbers(std::uint64_t seed) : random_(seed) {}

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  std::uint64_t next() {
    switch (below(5)) {
      case 0:
        return below(70);
      case 1:
        return random_();
      case 2:
        return UINT64_MAX - below(3);
      case 3:
        return (std::uint64_t{1} << below(64)) - 1 + below(3);
      default:
        return random_() >> below(64);
    }
  }
  std::int64_t next_signed() { return static_cast<std::int64_t>(next()); }
  // Mostly of bytes that a name has; not a name that must stay unknown.
  std::string text() {
    const bool any = below(4) == 0;
    std::string made(below(8) == 0 ? below(3'000) : below(20), '\0');
    for (char& byte : made) byte = static_cast<char>(any ? below(128) : "abc/._-0*?"[below(10)]);
    return made == "b" ? "bb" : made;
  }

 private:
  std::mt19937_64 random_;
};

// A good request, spoiled in up to three places.
v1::CreateRequest spoiled_create(OddNumbers& odd) {
  v1::CreateRequest request = good_create("b" + std::to_string(odd.below(4)));
  v1::ArraySpec& spec = *request.mutable_spec();
  const auto numbers = [&](auto* into, std::uint64_t most) {
    into->Clear();
    for (std::uint64_t count = odd.below(most); count > 0; --count) into->Add(odd.next_signed());
  };
  for (std::uint64_t spoiled = 1 + odd.below(3); spoiled > 0; --spoiled) {
    const auto number = static_cast<std::uint32_t>(odd.next());
    switch (odd.below(11)) {
      case 0:
        spec.set_name(odd.text());
        break;
      case 1:
        numbers(spec.mutable_shape(), 5);
        break;
      case 2:
        numbers(spec.mutable_strides_bytes(), 4);
        break;
      case 3:
        spec.set_shape(0, odd.below(2) == 0 ? 1 << 18 : odd.next_signed());
        break;
      case 4:
        spec.set_slots(number);
        break;
      case 5:
        spec.set_max_slots(number);
        break;
      case 6:
        spec.set_mode(number);
        break;
      case 7:
        spec.mutable_dtype()->set_bits(number);
        break;
      case 8:
        spec.mutable_dtype()->set_lanes(number);
        break;
      case 9:
        spec.set_device(odd.text());
        break;
      default:
        numbers(spec.mutable_shape(), 300);
    }
    if (spec.shape_size() == 0) spec.add_shape(odd.next_signed());
  }
  return request;
}

class HostileStorm : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kQuota = 1 << 20;

  void SetUp() override {
    ASSERT_TRUE(owner_.ask("connect").ok());
    ASSERT_TRUE(owner_.ask("create a 3 600 512 session").ok());
    ASSERT_TRUE(owner_.ask("put a 1000").ok());
    v1::OpenRequest open;
    open.set_name("a");
    v1::OpenReply opened;
    const auto guest = attach();
    ASSERT_TRUE(control_->call(&Stub::Open, credential_of(*guest), open, opened).ok());
    id_ = opened.array_id();
  }
  std::unique_ptr<internal::AttachClient> attach() {
    auto session = internal::AttachClient::connect(daemon_.directory());
    if (!session.ok()) std::abort();
    return std::move(*session);
  }

  // So many by one session, which then ends, with what it was given nevertheless.
  void attack(std::uint64_t requests) {
    const auto session = attach();
    const Attacker attacker{*control_, credential_of(*session), id_};
    const auto calls = hostile_calls();
    for (std::uint64_t i = 0; i < requests; ++i, ++sent_) {
      if (sent_ % 2 == 0) {
        const Hostile& hostile = calls[sent_ / 2 % calls.size()];
        const absl::Status status = hostile.call(attacker);
        ASSERT_EQ(wire::code_of(status), hostile.code) << hostile.name << ": " << status;
        continue;
      }
      const v1::CreateRequest request = spoiled_create(odd_);
      const absl::Status status = attacker.call(&Stub::Create, request);
      if (status.ok()) {
        ++granted_;
        if (odd_.below(4) != 0) withdraw(attacker, request.spec().name());
        continue;
      }
      ASSERT_THAT(
          wire::code_of(status),
          ::testing::AnyOf(wire::ErrorCode::kInvalidArgument, wire::ErrorCode::kUnsupported,
                           wire::ErrorCode::kAlreadyExists, wire::ErrorCode::kQuotaExceeded))
          << status << request.ShortDebugString();
    }
    const auto status = daemon_.admin().status();
    ASSERT_TRUE(status.ok()) << status.status();
    for (const v1::Quota& quota : status->quotas()) ASSERT_LE(quota.bytes(), kQuota);
  }
  // What the daemon remembers of the latest events is bounded, and is to be full before.
  void fill_history(std::uint64_t arrays) {
    const auto session = attach();
    const Attacker attacker{*control_, credential_of(*session), id_};
    for (std::uint64_t i = 0; i < arrays; ++i) {
      ASSERT_TRUE(attacker.call(&Stub::Create, good_create("c")).ok());
      ASSERT_NO_FATAL_FAILURE(withdraw(attacker, "c"));
    }
  }
  void withdraw(const Attacker& attacker, const std::string& name) {
    v1::NameRequest request;
    request.set_name(name);
    ASSERT_TRUE(attacker.call(&Stub::Withdraw, request).ok());
  }

  PrivateDaemon daemon_{{"--quota-bytes=1MiB", "--warm-bytes=0", "--log-level=error"}};
  Peer owner_{daemon_.directory()};
  std::unique_ptr<RawControl> control_ = std::make_unique<RawControl>(daemon_.directory());
  const std::uint64_t seed_ = number_from("MEMLEASE_STORM_SEED", std::random_device{}());
  OddNumbers odd_{seed_};
  std::uint64_t id_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t granted_ = 0;
};

TEST_F(HostileStorm, LeavesBooksExactAndMemoryAsItWas) {
  SCOPED_TRACE(fmt::format("MEMLEASE_STORM_SEED={}", seed_));
  const std::uint64_t requests = goal(1'500, 1'000'000);
  const std::uint64_t each = goal(250, 2'500);
  const std::uint64_t first = requests / 10;
  ASSERT_NO_FATAL_FAILURE(fill_history(goal(10, server::History::kMostEvents)));
  while (sent_ < first) ASSERT_NO_FATAL_FAILURE(attack(each));
  const std::uint64_t before = daemon_.memory_bytes("RssAnon");
  while (sent_ < first + requests) ASSERT_NO_FATAL_FAILURE(attack(each));
  const std::uint64_t after = daemon_.memory_bytes("RssAnon");
  const auto growth = static_cast<std::int64_t>(after) - static_cast<std::int64_t>(before);
  // A short run does not fill what the daemon remembers.
  EXPECT_LE(growth, static_cast<std::int64_t>(goal(8, 1)) << 20) << before << " bytes before";
  EXPECT_TRUE(owner_.ask("read a 0 1000").ok());
  EXPECT_TRUE(owner_.ask("put a 1000").ok());
  EXPECT_TRUE(owner_.ask("release a").ok());
  EXPECT_TRUE(owner_.ask("withdraw a").ok());
  EXPECT_EQ(daemon_.unsettled(1), "");
  reached(
      "{} hostile requests to a running daemon (seed {}): 0 deaths, {} granted within the quota, "
      "{} KiB more memory",
      sent_, seed_, granted_, growth / 1024);
}

}  // namespace
}  // namespace memlease::testing
