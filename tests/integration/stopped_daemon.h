// What the tests of a stopped daemon begin with.
#pragma once

#include <memlease/for_bindings.h>
#include <memlease/memlease.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "memlease/v1/admin.pb.h"
#include "tests/support/options_for.h"
#include "tests/support/pattern.h"
#include "tests/support/peer.h"
#include "tests/support/private_daemon.h"

namespace memlease::testing {

struct Interrupted {};

constexpr std::int64_t kWords = 64;

// Clients of a daemon that a test stops: this process, which has array "a" open, and another one.
class StoppedDaemon : public ::testing::Test {
 public:
  ~StoppedDaemon() override {
    daemon.signal(SIGCONT);
    client.close();
  }

 protected:
  StoppedDaemon() {
    CreateOptions options;
    options.name = "a";
    options.dtype = dtype_of<std::uint64_t>();
    options.shape = {kWords};
    options.lifetime = Lifetime::Persistent;
    array.emplace(client.create(options));
    WriteLease lease = array->write();
    fill(lease);
    lease.publish();
    run("connect");
  }
  ConnectOptions here() const { return options_for(daemon); }
  // Of a client whose calls end as soon as they ask.
  ConnectOptions interrupted() const {
    ConnectOptions options = here();
    options.check_interrupt = [] { throw Interrupted{}; };
    return options;
  }
  void run(const std::string& command) {
    const Answer answer = other.ask(command);
    EXPECT_TRUE(answer.ok()) << command << ": " << answer.describe();
  }
  // The daemon counts this process among those that have it open.
  bool open_here(const std::string& name) {
    const auto holders = daemon.admin().list_holders(name);
    EXPECT_TRUE(holders.ok()) << holders.status();
    return holders.ok() && std::any_of(holders->holders().begin(), holders->holders().end(),
                                       [](const auto& holder) { return holder.pid() == getpid(); });
  }
  // With what the other process looks for.
  static void fill(WriteLease& lease) {
    Pattern pattern(static_cast<std::uint64_t*>(lease.data()), kWords);
    pattern.fill_first_half(lease.version(), 0);
    pattern.fill_second_half();
  }
  void stop() const { daemon.stop(); }
  // A call would take until the daemon goes on, or 10 s.
  template <typename Step>
  void expect_no_call(const char* what, Step step) {
    const std::uint64_t calls = client.calls();
    const auto start = std::chrono::steady_clock::now();
    step();
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5)) << what;
    EXPECT_EQ(client.calls(), calls) << what;
  }

  PrivateDaemon daemon{{"--log-level=warning"}};
  Peer other{daemon.directory()};
  Client client = Client::connect(here());
  std::optional<Array> array;
};

}  // namespace memlease::testing
