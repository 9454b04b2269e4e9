// A process that has no address space left for an array. Not under a sanitizer, whose runtime takes
// address space for each thread and gives up without.
#include <memlease/memlease.h>
#include <sys/resource.h>

#include <cstdint>
#include <fstream>
#include <functional>

#include "gtest/gtest.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

// Sets a limit for as long as it lives.
class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(std::uint64_t more_bytes) {
    getrlimit(RLIMIT_AS, &before_);
    std::uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limit = before_;
    limit.rlim_cur = pages * 4096 + more_bytes;
    setrlimit(RLIMIT_AS, &limit);
  }
  ~AddressSpaceLimit() { setrlimit(RLIMIT_AS, &before_); }
  AddressSpaceLimit(const AddressSpaceLimit&) = delete;
  AddressSpaceLimit& operator=(const AddressSpaceLimit&) = delete;

 private:
  rlimit before_{};
};

void expect_unmapped(const std::function<Array()>& get) {
  try {
    get();
    ADD_FAILURE() << "256 MiB have been mapped";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::OutOfMemory) << error.what();
  }
}

TEST(Unmappable, ArraysAreRefusedAndNoneIsLeft) {
  PrivateDaemon daemon({"--warm-bytes=0", "--log-level=warning"});
  ConnectOptions connect;
  connect.directory = daemon.directory();
  connect.start = false;
  const Client client = Client::connect(connect);
  CreateOptions options;
  options.name = "big";
  options.dtype = dtype_of<std::uint64_t>();
  options.shape = {32 << 20};
  options.slots = 1;
  options.lifetime = Lifetime::Persistent;
  EXPECT_FALSE(client.exists("big"))
      << "a first call, whose threads take address space of their own";
  {
    const AddressSpaceLimit limit(128 << 20);
    expect_unmapped([&] { return client.create(options); });
    EXPECT_FALSE(client.exists("big"));
  }
  // One that is there already stays.
  client.create(options).close();
  options.exist_ok = true;
  {
    const AddressSpaceLimit limit(128 << 20);
    expect_unmapped([&] { return client.create(options); });
    expect_unmapped([&] { return client.open("big"); });
  }
  EXPECT_EQ(client.open("big").shape(), options.shape);
  client.withdraw("big");
  client.close();
  EXPECT_EQ(daemon.unsettled(), "");
}

}  // namespace
}  // namespace memlease::testing
