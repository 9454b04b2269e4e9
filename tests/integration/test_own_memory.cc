// Memory of the daemon's own, as the kernel refuses it: what has begun goes on, nothing new begins,
// and once there is memory again all is as before. Not for a sanitized daemon, whose allocator ends
// the process.
#include <memlease/memlease.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/channel/attach_client.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "server/memory_reserve.h"
#include "tests/integration/raw_control.h"
#include "tests/support/private_daemon.h"
#include "wire/error.h"

namespace memlease::testing {
namespace {

using ::testing::HasSubstr;

class OwnMemory : public ::testing::Test {
 protected:
  // Refuses the daemon more than it has, but for so much.
  void limit_memory(std::uint64_t more_bytes) {
    set_limit(daemon_.memory_bytes("VmData") + more_bytes);
  }
  void let_memory_be() { set_limit(RLIM_INFINITY); }

  Client connect() const {
    ConnectOptions options;
    options.directory = daemon_.directory();
    options.start = false;
    return Client::connect(options);
  }
  Array create(const std::string& name) {
    CreateOptions options;
    options.name = name;
    options.dtype = dtype_of<std::uint64_t>();
    options.shape = {8};
    return client_.create(options);
  }
  // Creates arrays until there is no memory for one, and says how that is told. Where it is the
  // stack of a thread that finds no room, gRPC asks to try again.
  std::optional<Error> fill() {
    for (int i = 0; i < 50'000; ++i) {
      try {
        create(fmt::format("filled/{}/a_name_that_takes_its_part_of_the_daemons_memory/{}", filled_,
                           i));
      } catch (const QuotaExceeded& error) {
        EXPECT_THAT(error.what(), HasSubstr("Server Threadpool Exhausted"));
      } catch (const Error& error) {
        return error;
      }
    }
    return std::nullopt;
  }
  void empty() {
    for (const std::string& name : client_.list()) client_.withdraw(name);
    ++filled_;
  }

  PrivateDaemon daemon_{{"--quota-arrays=100000"}};
  const Client client_ = connect();

 private:
  void set_limit(rlim_t bytes) {
    const rlimit limit{bytes, RLIM_INFINITY};
    ASSERT_EQ(::prlimit(daemon_.pid(), RLIMIT_DATA, &limit, nullptr), 0) << std::strerror(errno);
  }

  int filled_ = 0;
};

TEST_F(OwnMemory, WhatHasBegunGoesOnAndNothingNewBegins) {
  const Array array = create("a");
  const Client another = connect();
  const Array same = another.open("a");
  array.write().publish();
  // Where a call leaves some memory behind, the reserve may be taken again at once.
  bool is_short = false;
  for (int tries = 0; tries < 20 && !is_short; ++tries) {
    limit_memory(0);
    const std::optional<Error> refused = fill();
    ASSERT_TRUE(refused.has_value()) << "50,000 arrays took no memory";
    EXPECT_EQ(refused->code(), ErrorCode::OutOfMemory) << refused->what();
    EXPECT_THAT(refused->what(), HasSubstr("gets no memory for anything new"));
    limit_memory(server::MemoryReserve::kBytes / 2);  // enough to go on, not for the reserve
    try {
      another.create(CreateOptions{fmt::format("b/{}", tries), dtype_of<float>(), {1}});
    } catch (const OutOfMemory&) {
      is_short = true;
    }
  }
  ASSERT_TRUE(is_short);
  EXPECT_EQ(wire::code_of(internal::AttachClient::connect(daemon_.directory()).status()),
            wire::ErrorCode::kOutOfMemory);
  EXPECT_THAT(daemon_.log(), HasSubstr("the daemon gets no memory"));
  EXPECT_THAT(daemon_.log(), HasSubstr("mechanism=memory"));
  // Its creator reads for the first time, and ownership moves there and back.
  EXPECT_EQ(array.read().version(), 1U);
  same.write().publish();
  array.write().publish();
  EXPECT_EQ(array.read().version(), 3U);
  EXPECT_GT(client_.list("filled/*").size(), 0U);
  let_memory_be();
  create("c");
  EXPECT_THAT(daemon_.log(), HasSubstr("it takes on new work"));
}

// Where it comes to its end is another place each time.
TEST_F(OwnMemory, ItsEndIsSurvivedWhereverItComes) {
  create("first");  // gRPC has its threads, whose stacks count
  for (std::uint64_t round = 0; round < 16; ++round) {
    SCOPED_TRACE(round);
    limit_memory(round * 1544);
    const std::optional<Error> refused = fill();
    ASSERT_TRUE(refused.has_value());
    ASSERT_EQ(refused->code(), ErrorCode::OutOfMemory) << refused->what();
    let_memory_be();
    ASSERT_NO_THROW(create("once_more"));
    empty();
  }
  client_.close();
  EXPECT_EQ(daemon_.unsettled(1), "") << "the process keeps its session";
}

// A connection takes more of gRPC than a call: threads, and memory that abseil has from the kernel.
TEST_F(OwnMemory, CrowdsOfConnectionsAreSurvived) {
  create("first");
  for (std::uint64_t round = 0; round < 8; ++round) {
    limit_memory(round * 65'536);
    std::vector<std::thread> crowd;
    for (int i = 0; i < 8; ++i) {
      crowd.emplace_back([&] {
        for (int j = 0; j < 3; ++j) {
          // An answer or none: without a token there is nothing to be had.
          static_cast<void>(RawControl(daemon_.directory(), geteuid()).list(""));
        }
      });
    }
    for (std::thread& one : crowd) one.join();
    let_memory_be();
    ASSERT_EQ(wire::code_of(RawControl(daemon_.directory(), geteuid()).list("")),
              wire::ErrorCode::kDenied)
        << round;
  }
}

}  // namespace
}  // namespace memlease::testing
