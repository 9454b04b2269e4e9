// Calls on the control socket without a token, or with one that is wrong, foreign or used up.
#include <unistd.h>

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "client/channel/attach_client.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "tests/integration/raw_control.h"
#include "tests/support/goal.h"
#include "tests/support/private_daemon.h"
#include "wire/error.h"
#include "wire/grpc/convert.h"

namespace memlease::testing {
namespace {

using internal::AttachClient;

class Tokens : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::geteuid(), 0U) << "these tests become other users: run them as root";
  }
  std::unique_ptr<AttachClient> attach() {
    auto session = AttachClient::connect(daemon_.directory());
    if (!session.ok()) std::abort();
    return std::move(*session);
  }

  PrivateDaemon daemon_{{"--socket-mode=0666", "--log-level=error"}};
};

#define EXPECT_DENIED(status) EXPECT_EQ(wire::code_of(status), wire::ErrorCode::kDenied) << (status)

TEST_F(Tokens, AreNeededByEveryCall) {
  using Stub = v1::Control::Stub;
  const auto session = attach();
  v1::NameRequest name;
  name.set_name("a");
  v1::OpenRequest open;
  open.set_name("a");
  v1::LookUpRequest wait;
  wait.set_name("a");
  v1::CreateRequest create;
  wire::ArraySpec spec;
  spec.name = "a";
  spec.dtype = {wire::DTypeCode::kFloat, 64, 1};
  spec.shape = {8};
  *create.mutable_spec() = wire::to_proto(spec);
  RawControl caller(daemon_.directory());
  for (const std::string& credential : {std::string(), std::string("x"), std::string(36, '\0')}) {
    EXPECT_DENIED(caller.call(&Stub::Create, credential, create));
    EXPECT_DENIED(caller.call(&Stub::Open, credential, open));
    EXPECT_DENIED(caller.call(&Stub::Subscribe, credential));
    EXPECT_DENIED(caller.call(&Stub::AcquireWriter, credential));
    EXPECT_DENIED(caller.call(&Stub::ConfirmWriter, credential));
    EXPECT_DENIED(caller.call(&Stub::CancelWriter, credential));
    EXPECT_DENIED(caller.call(&Stub::Leave, credential));
    EXPECT_DENIED(caller.call(&Stub::Withdraw, credential, name));
    EXPECT_DENIED(caller.call(&Stub::List, credential));
    EXPECT_DENIED(caller.call(&Stub::LookUp, credential, wait));
    EXPECT_DENIED(caller.call(&Stub::Holders, credential));
  }
  // The same call, with a token.
  EXPECT_TRUE(caller.call(&Stub::Create, credential_of(*session), create).ok());
}

TEST_F(Tokens, AreRefusedIfTheyAreNotQuiteRight) {
  const auto session = attach();
  const auto other = attach();
  const std::string good = credential_of(*session);
  const std::string good_other = credential_of(*other);
  std::map<std::string, std::string> bad;
  for (std::size_t byte = 0; byte < good.size(); ++byte) {
    std::string& flipped = bad["byte " + std::to_string(byte)] = good;
    flipped[byte] = static_cast<char>(flipped[byte] ^ 1);
  }
  bad["one byte less"] = good.substr(0, good.size() - 1);
  bad["one byte more"] = good + '\0';
  bad["another session's number"] = good_other.substr(0, 4) + good.substr(4);
  RawControl caller(daemon_.directory());
  for (const auto& [what, credential] : bad) {
    SCOPED_TRACE(what);
    EXPECT_DENIED(caller.list(credential));
  }
  EXPECT_TRUE(caller.list(good).ok());
}

TEST_F(Tokens, AreOfNoUseToAnotherUser) {
  const auto session = attach();
  RawControl thief(daemon_.directory(), 4001);
  EXPECT_DENIED(thief.list(credential_of(*session)));
  EXPECT_TRUE(RawControl(daemon_.directory()).list(credential_of(*session)).ok());
}

TEST_F(Tokens, EndWithTheirSession) {
  RawControl caller(daemon_.directory());
  auto session = attach();
  const std::string credential = credential_of(*session);
  EXPECT_TRUE(caller.list(credential).ok());
  session.reset();
  EXPECT_EQ(daemon_.unsettled(), "");
  EXPECT_DENIED(caller.list(credential));
  // Nor does the next session make it good again, nor another daemon.
  const auto next = attach();
  EXPECT_DENIED(caller.list(credential));
  PrivateDaemon another;
  EXPECT_DENIED(RawControl(another.directory()).list(credential_of(*next)));
}

TEST_F(Tokens, CannotBeGuessed) {
  const auto session = attach();
  const std::string good = credential_of(*session);
  constexpr std::uint64_t kGuessers = 4;
  const std::uint64_t each = goal(2'000, 3'000'000) / kGuessers;
  std::atomic<std::uint64_t> refused{0};
  std::vector<std::thread> guessers;
  for (std::uint64_t seed = 0; seed < kGuessers; ++seed) {
    auto caller = std::make_unique<RawControl>(daemon_.directory());
    guessers.emplace_back([&, seed, caller = std::move(caller)] {
      std::mt19937_64 random(seed);
      for (std::uint64_t i = 0; i < each; ++i) {
        std::string guess = good.substr(0, 4);
        for (int word = 0; word < 4; ++word) {
          const std::uint64_t bits = random();
          guess.append(reinterpret_cast<const char*>(&bits), sizeof bits);
        }
        if (wire::code_of(caller->list(guess)) == wire::ErrorCode::kDenied) ++refused;
      }
    });
  }
  for (std::thread& guesser : guessers) guesser.join();
  EXPECT_EQ(refused, kGuessers * each);
  EXPECT_TRUE(RawControl(daemon_.directory()).list(good).ok());
  reached("{} guesses of a token in calls, {} of them refused as such", kGuessers * each,
          refused.load());
}

// As they are, in hexadecimal, or in base64 from any of three bytes on.
std::vector<std::string> spellings(const std::string& token) {
  std::string hex;
  for (const char byte : token) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  std::vector<std::string> all{token, hex};
  for (const std::size_t skipped : {0U, 1U, 2U}) {
    // The last quartet depends on what follows.
    all.push_back(absl::Base64Escape(token.substr(skipped, 18)));
  }
  return all;
}

TEST_F(Tokens, AreInNoLog) {
  PrivateDaemon daemon({"--socket-mode=0666", "--log-level=debug"});
  auto session = AttachClient::connect(daemon.directory());
  ASSERT_TRUE(session.ok()) << session.status();
  const std::string good = credential_of(**session);
  RawControl caller(daemon.directory());
  EXPECT_TRUE(caller.list(good).ok());
  v1::NameRequest name;
  name.set_name("a");
  EXPECT_EQ(wire::code_of(caller.call(&v1::Control::Stub::Withdraw, good, name)),
            wire::ErrorCode::kNotFound);
  EXPECT_DENIED(caller.list(good + '\0'));
  EXPECT_DENIED(RawControl(daemon.directory(), 4001).list(good));
  session->reset();
  EXPECT_EQ(daemon.unsettled(), "");
  const std::string log = daemon.log();
  EXPECT_THAT(log, ::testing::HasSubstr("session="));
  for (const std::string& spelling : spellings(good.substr(4))) {
    EXPECT_EQ(log.find(spelling), std::string::npos) << spelling;
  }
}

}  // namespace
}  // namespace memlease::testing
