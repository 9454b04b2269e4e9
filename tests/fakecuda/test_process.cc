// A process's life: forked, ending, and what it leaves.
#include "tests/fakecuda/two_processes.h"

namespace fakecuda::testing {
namespace {

class ProcessLife : public TwoProcesses {};

TEST_F(ProcessLife, AForkedChildHasNoCuda) {
  Peer peer("");
  PEER_OK(peer.ask("device 0"));
  EXPECT_EQ(error(peer.ask("call_in_fork")), number(cudaErrorInitializationError));
  PEER_OK(peer.ask("device 0")) << "the parent still has";
}

TEST_F(ProcessLife, AChildOfAProcessThatNeverUsedCudaHasIt) {
  Peer peer("");
  PEER_OK(peer.ask("call_in_fork"));
}

TEST_F(ProcessLife, ACallAfterTheEndIsAnswered) {
  Peer peer("");
  PEER_OK(peer.ask("call_after_end"));
  PEER_OK(peer.ask("device 0"));
  PEER_OK(peer.ask("stream s"));
  PEER_OK(peer.ask("destroy_stream s"));
  peer.say("end");
  EXPECT_EQ(error(peer.answer()), number(cudaErrorCudartUnloading));
}

TEST_F(ProcessLife, WhatAProcessKeepsAtItsEndIsALeak) {
  {
    Peer peer("");
    PEER_OK(peer.ask("malloc data 262144"));
    PEER_OK(peer.ask("event event"));
  }
  const Finding finding = only(world.findings());
  EXPECT_EQ(finding.what, What::kLeak);
  EXPECT_EQ(finding.text, "1 allocations, 1 events");
}

TEST_F(ProcessLife, ItsMemoryIsGivenBackAllTheSame) {
  {
    Peer peer("");
    PEER_OK(peer.ask("malloc data 262144"));
  }
  std::size_t left = 0;
  std::size_t total = 0;
  CUDA_OK(cudaMemGetInfo(&left, &total));
  EXPECT_EQ(left, total);
  EXPECT_THAT(only(world.findings()), Is(What::kLeak));
}

TEST_F(ProcessLife, CapacityIsSharedByAllProcesses) {
  Peer peer("");
  PEER_OK(peer.ask("malloc data 100000000"));  // 800 MB of 1 GiB
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, 400'000'000), cudaErrorMemoryAllocation);
  PEER_OK(peer.ask("free data"));
  CUDA_OK(cudaMalloc(&data, 400'000'000));
  EXPECT_EQ(error(peer.ask("malloc data 100000000")), number(cudaErrorMemoryAllocation));
  CUDA_OK(cudaFree(data));
}

// Wherever it is killed, the world goes on for the others, and what it held comes back.
TEST_F(ProcessLife, ProcessesMayBeKilledAnywhere) {
  Peer other("");
  for (u64 round = 0; round < 20; ++round) {
    Peer victim("");
    victim.say("churn");
    const long pid = victim.pid();
    while (world->calls("cudaFree", pid) < 3 + round) std::this_thread::yield();
    victim.kill();
    PEER_OK(other.ask("malloc data 262144"));
    PEER_OK(other.ask("free data"));
  }
  std::size_t left = 0;
  std::size_t total = 0;
  CUDA_OK(cudaMemGetInfo(&left, &total));
  EXPECT_EQ(left, total);
}

TEST_F(ProcessLife, FaultsArePlannedForOneProcess) {
  Peer one("");
  Peer two("");
  world->fail("cudaMalloc", cudaErrorMemoryAllocation, 1, -1, Fault::kRefuse,
              static_cast<u32>(two.pid()));
  PEER_OK(one.ask("malloc data 1"));
  PEER_OK(one.ask("free data"));
  EXPECT_EQ(error(two.ask("malloc data 1")), number(cudaErrorMemoryAllocation));
}

}  // namespace
}  // namespace fakecuda::testing
