#include "tests/device/pools.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <utility>

#include "gtest/gtest.h"
#include "memlease/v1/admin.pb.h"
#include "tests/support/fakecuda/private_world.h"

namespace memlease::testing {
namespace {

// What lies idle between two tests. It ends with the last one.
class Pools : public ::testing::Environment {
 public:
  void TearDown() override {
    peers.clear();
    daemons.clear();
  }
  std::map<std::vector<std::string>, std::unique_ptr<PrivateDaemon>> daemons;  // by flags
  std::vector<Peer> peers;
};

// GoogleTest owns it.
Pools& pools = *static_cast<Pools*>(::testing::AddGlobalTestEnvironment(new Pools));

bool are_shared() { return !fakecuda::is_loaded(); }

// It may have answers to give before.
bool is_reset(Peer& peer, const std::string& directory) {
  peer.signal(SIGCONT);
  peer.say("reset " + directory);
  for (;;) {
    const Answer answer = peer.answer();
    if (answer.ok() && answer.text == "reset") return true;
    if (answer.kind == Answer::Kind::kDead || answer.kind == Answer::Kind::kSilent) return false;
  }
}

// And of this process. Who has created an array keeps its session for as long as it lives.
std::size_t sessions_of_idle_peers(PrivateDaemon& daemon) {
  const auto listed = daemon.admin().list_sessions();
  if (!listed.ok()) return 0;
  const auto is_idle = [](const v1::SessionInfo& session) {
    return session.pid() == getpid() || std::ranges::any_of(pools.peers, [&](const Peer& peer) {
             return std::cmp_equal(peer.pid(), session.pid());
           });
  };
  return static_cast<std::size_t>(std::ranges::count_if(listed->sessions(), is_idle));
}

}  // namespace

TestDaemon::TestDaemon(std::vector<std::string> flags)
    : flags_(std::move(flags)), daemon_(std::exchange(pools.daemons[flags_], nullptr)) {
  if (daemon_ == nullptr) daemon_ = std::make_unique<PrivateDaemon>(flags_);
}

TestDaemon::~TestDaemon() {
  if (!are_shared() || daemon_->pid() == 0 || ::testing::Test::HasFailure()) return;
  if (const auto arrays = daemon_->admin().list_arrays(""); arrays.ok()) {
    for (const v1::ArrayInfo& array : arrays->arrays()) {
      daemon_->admin().withdraw(array.spec().name()).IgnoreError();  // a replica goes with its home
    }
  }
  const std::string standing = daemon_->unsettled(sessions_of_idle_peers(*daemon_), 10'000);
  EXPECT_EQ(standing, "") << "the test leaves something in its daemon";
  if (standing.empty()) pools.daemons[flags_] = std::move(daemon_);
}

Peer take_peer(const std::string& directory) {
  while (!pools.peers.empty()) {
    Peer peer = std::move(pools.peers.back());
    pools.peers.pop_back();
    if (is_reset(peer, directory)) return peer;
    peer.kill();
  }
  return Peer(directory);
}

void give_back(Peer& peer) {
  if (are_shared() && peer.pid() != 0 && is_reset(peer, "-"))
    pools.peers.push_back(std::move(peer));
}

}  // namespace memlease::testing
