// What keeps an array's state alive in a process: handles, leases and views, in whatever order they
// go and on whatever thread. And opening what is open.
#include <memlease/memlease.h>

#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "tests/support/error_of.h"
#include "tests/support/options_for.h"
#include "tests/support/private_daemon.h"
#include "tests/support/words.h"

namespace memlease::testing {
namespace {

class Leases : public ::testing::Test {
 protected:
  Client connect() { return Client::connect(options_for(daemon_)); }
  // With a version whose first word is its number.
  static void publish(const Array& array) {
    WriteLease lease = array.write();
    *static_cast<std::uint64_t*>(lease.data()) = lease.version();
    lease.publish();
  }

  PrivateDaemon daemon_{{"--warm-bytes=0", "--log-level=warning"}};
};

std::uint64_t first_word(const ReadLease& lease) {
  return *static_cast<const std::uint64_t*>(lease.data());
}

TEST_F(Leases, OutliveHandleAndClient) {
  std::optional<ReadLease> read;
  std::optional<WriteLease> write;
  Pin pin;
  std::uint32_t session = 0;
  {
    const Client client = connect();
    session = client.session_id();
    CreateOptions options = words("a", 64);
    options.lifetime = Lifetime::Persistent;  // a session array keeps the session
    const Array array = client.create(options);
    publish(array);
    read = array.read();
    write = array.write();
    pin = write->pin();
  }
  EXPECT_EQ(first_word(*read), 1);
  write->publish();
  write.reset();
  read.reset();
  EXPECT_NE(pin, nullptr);
  pin.reset();
  const Client other = connect();
  EXPECT_NE(other.session_id(), session) << "the session must have ended with the last of them";
  other.withdraw("a");
  other.close();
  EXPECT_EQ(daemon_.unsettled(), "");
}

// The leases' ends meet each other's, the handle's and a new handle's.
TEST_F(Leases, EndOnAnyThreadAtOnce) {
  constexpr int kThreads = 4;
  const Client client = connect();
  {
    CreateOptions options = words("a", 64);
    options.lifetime = Lifetime::Persistent;
    publish(client.create(options));
  }
  for (int round = 0; round < 200; ++round) {
    std::optional<Array> array = client.open("a");
    std::latch start(kThreads + 1);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&start, lease = array->read(), i]() mutable {
        Pin pin = i % 2 == 0 ? lease.pin() : nullptr;
        start.arrive_and_wait();
        lease.release();
      });
    }
    start.arrive_and_wait();
    array.reset();
    if (round % 2 == 0) {
      EXPECT_EQ(first_word(client.open("a").read()), 1);
    }
    for (std::thread& thread : threads) thread.join();
  }
  client.withdraw("a");
  client.close();
  EXPECT_EQ(daemon_.unsettled(), "");
}

TEST_F(Leases, WhatIsOpenOpensAgainWithoutACall) {
  const Client client = connect();
  const Array array = client.create(words("a", 64));
  publish(array);
  const std::uint64_t calls = client.calls();
  EXPECT_EQ(client.open("a").id(), array.id());
  EXPECT_EQ(client.calls(), calls);
  // Withdrawn behind its back, and created again.
  ASSERT_TRUE(daemon_.admin().withdraw("a").ok());
  EXPECT_EQ(error_of([&] { static_cast<void>(client.open("a")); }), ErrorCode::NotFound);
  const Array second = client.create(words("a", 64));
  EXPECT_NE(second.id(), array.id());
  EXPECT_EQ(client.open("a").id(), second.id());
  // A closed handle's array is opened by a call.
  second.close();
  EXPECT_FALSE(client.open("a").closed());
}

}  // namespace
}  // namespace memlease::testing
