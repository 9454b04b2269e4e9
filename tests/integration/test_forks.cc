// A process with leases forks very often: its children and it are told apart, and it sees no error.
#include <memlease/memlease.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <string>

#include "gtest/gtest.h"
#include "memlease/v1/admin.pb.h"
#include "tests/support/forked.h"
#include "tests/support/goal.h"
#include "tests/support/options_for.h"
#include "tests/support/pattern.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {
namespace {

constexpr std::size_t kForkWords = 64;

class Forks : public ::testing::Test {
 protected:
  static std::string wrong_in(const ReadLease& lease) {
    return Pattern(static_cast<std::uint64_t*>(const_cast<void*>(lease.data())), kForkWords)
        .wrong(lease.version());
  }
  static Array create(const Client& client, const std::string& name) {
    CreateOptions options;
    options.name = name;
    options.shape = {static_cast<std::int64_t>(kForkWords)};
    options.dtype = dtype_of<std::uint64_t>();
    options.lifetime = Lifetime::Persistent;
    return client.create(options);
  }
  static void publish(const Array& array) {
    WriteLease lease = array.write(std::chrono::seconds(5));
    Pattern(static_cast<std::uint64_t*>(lease.data()), kForkWords)
        .fill_to(lease.version(), 7, kForkWords);
    lease.publish();
  }
  // What it returned there, or how the child ended.
  static std::string in_child(const std::function<std::string()>& work) {
    return in_forked_child([&] {
      ::alarm(60);
      return work();
    });
  }
  static std::string done(bool right) { return right ? "done" : "not done"; }
  static bool is_forked_client(const std::function<void()>& use) {
    try {
      use();
    } catch (const ForkedClient&) {
      return true;
    }
    return false;
  }

  PrivateDaemon daemon_{{"--log-level=error"}};
};

TEST_F(Forks, DoNotDisturbAProcessWithLeases) {
  const std::uint64_t forks = goal(60, 10'000);
  {
    const Client client = Client::connect(options_for(daemon_));
    const Array read = create(client, "read");
    const Array written = create(client, "written");
    const Array busy = create(client, "busy");
    publish(read);
    const ReadLease kept = read.read();
    WriteLease begun = written.write();
    const auto first = static_cast<std::uint64_t*>(begun.data());
    // What children do, as those of multiprocessing and of subprocess.
    struct Life {
      std::function<std::string()> live;
      std::string end = done(true);
    };
    const std::array<Life, 5> lives{
        Life{[] { return done(true); }},
        Life{[&] { return done(wrong_in(read.read()).empty()); }},
        Life{[] { return done(::execl("/bin/true", "true", nullptr) == 0); },
             "the child ended with status 0"},
        Life{[&] {
          return done(is_forked_client([&] { static_cast<void>(kept.data()); }) &&
                      is_forked_client([&] { begun.publish(); }));
        }},
        Life{[&] { return in_child([&] { return done(wrong_in(busy.read()).empty()); }); }},
    };
    for (std::uint64_t i = 0; i < forks; ++i) {
      publish(busy);
      first[i % kForkWords] = i;
      const Life& life = lives.at(i % lives.size());
      ASSERT_EQ(in_child(life.live), life.end) << "fork " << i;
      ASSERT_EQ(wrong_in(busy.read()), "");
      ASSERT_EQ(wrong_in(kept), "") << "fork " << i;
      ASSERT_EQ(first[i % kForkWords], i);
    }
    ASSERT_EQ(kept.version(), 1U);
    ASSERT_EQ(busy.version(), forks);
    Pattern(first, kForkWords).fill_to(begun.version(), 7, kForkWords);
    ASSERT_EQ(begun.publish(), 1U);
    ASSERT_EQ(wrong_in(written.read()), "");
    const auto status = daemon_.admin().status();
    ASSERT_TRUE(status.ok());
    EXPECT_EQ(status->arrays(), 3U);
    for (const Array& array : {read, written, busy}) client.withdraw(array.name());
  }
  EXPECT_EQ(daemon_.unsettled(), "");
  reached(
      "{} forks of a process with a read and a write lease, a fifth of them with exec: its leases "
      "and calls as before",
      forks);
}

}  // namespace
}  // namespace memlease::testing
