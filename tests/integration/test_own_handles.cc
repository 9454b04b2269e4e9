// Several clients in one process, as libraries make them that know nothing of each other: what one
// of them closes, or is interrupted by, is its own.
#include <memlease/memlease.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>

#include "gtest/gtest.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

class OwnHandles : public ::testing::Test {
 protected:
  OwnHandles() {
    CreateOptions options;
    options.name = "a";
    options.dtype = dtype_of<std::uint64_t>();
    options.shape = {8};
    options.lifetime = Lifetime::Persistent;
    array.emplace(client.create(options));
    array->write().publish();
  }
  Client connect(std::function<void()> check_interrupt = {}) const {
    ConnectOptions options;
    options.directory = daemon.directory();
    options.start = false;
    options.check_interrupt = std::move(check_interrupt);
    return Client::connect(options);
  }
  // What a call with the array raises.
  static std::optional<ErrorCode> error_of(const Array& array, const ReadOptions& options = {}) {
    try {
      array.read(options);
      return std::nullopt;
    } catch (const Error& error) {
      return error.code();
    }
  }
  // A wait for a version that nobody publishes.
  static ReadOptions in_vain(const Array& array) {
    ReadOptions options;
    options.newer_than = array.version();
    options.timeout = std::chrono::milliseconds(1);
    return options;
  }

  PrivateDaemon daemon{{"--warm-bytes=0", "--log-level=warning"}};
  Client client = connect();
  std::optional<Array> array;
};

TEST_F(OwnHandles, OfOneArrayAreClosedOneByOne) {
  const Client other = connect();
  const Array theirs = other.open("a");
  const Array again = client.open("a");
  const Array copy = *array;
  array->close();
  EXPECT_TRUE(copy.closed());
  EXPECT_EQ(error_of(copy), ErrorCode::Closed);
  for (const Array& open : {theirs, again}) {
    EXPECT_FALSE(open.closed());
    EXPECT_EQ(error_of(open), std::nullopt);
    open.write().publish();
  }
  again.close();
  theirs.close();
  const Array reopened = client.open("a");
  EXPECT_EQ(error_of(reopened), std::nullopt);
  EXPECT_EQ(error_of(theirs), ErrorCode::Closed) << "closed once is closed for ever";
  client.withdraw("a");
  other.close();
  client.close();
  EXPECT_EQ(daemon.unsettled(), "");
}

TEST_F(OwnHandles, AreClosedWithTheirClientAlone) {
  const Client other = connect();
  const Array theirs = other.open("a");
  other.close();
  EXPECT_EQ(error_of(theirs), ErrorCode::Closed);
  EXPECT_EQ(error_of(*array), std::nullopt);
  client.withdraw("a");
  client.close();
  EXPECT_EQ(daemon.unsettled(), "");
}

TEST_F(OwnHandles, OutliveTheClientThatWasATemporary) {
  std::optional<Array> kept(connect().open("a"));
  client.close();
  EXPECT_EQ(error_of(*array), ErrorCode::Closed);
  EXPECT_EQ(error_of(*kept), std::nullopt);
  kept->withdraw();
  kept.reset();
  connect().close();  // the last one
  EXPECT_EQ(daemon.unsettled(), "");
}

TEST_F(OwnHandles, AreInterruptedByTheirOwnClient) {
  struct Stop : std::runtime_error {
    Stop() : std::runtime_error("stop") {}
  };
  const auto used = std::make_shared<int>(0);  // by a check that is still there
  Client other = connect([used] { throw Stop(); });
  const Array theirs = other.open("a");
  Follower follower = theirs.follow();
  ReadOptions for_ever = in_vain(theirs);
  for_ever.timeout = kForever;
  EXPECT_THROW(theirs.read(for_ever), Stop);
  follower.next();
  EXPECT_THROW(follower.next(), Stop);
  EXPECT_THROW(other.wait_for("never"), Stop);
  EXPECT_EQ(error_of(*array, in_vain(*array)), ErrorCode::Timeout);
  other.close();
  EXPECT_EQ(used.use_count(), 1) << "nobody may call it now";
  EXPECT_EQ(error_of(*array, in_vain(*array)), ErrorCode::Timeout);
}

}  // namespace
}  // namespace memlease::testing
