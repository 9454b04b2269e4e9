// A test with other processes in its world, under its command (peer_main.cc).
#pragma once

#include <string>

#include "tests/fakecuda/fixture.h"
#include "tests/fakecuda/hex.h"
#include "tests/support/peer.h"

namespace fakecuda::testing {

using memlease::testing::Answer;
using memlease::testing::Peer;

#define PEER_OK(answer) EXPECT_TRUE((answer).ok())

class TwoProcesses : public Fakecuda {
 protected:
  std::string exported(std::uint64_t* data) {
    cudaIpcMemHandle_t handle = {};
    EXPECT_EQ(cudaIpcGetMemHandle(&handle, data), cudaSuccess);
    return to_hex(handle);
  }
  std::string exported(cudaEvent_t event) {
    cudaIpcEventHandle_t handle = {};
    EXPECT_EQ(cudaIpcGetEventHandle(&handle, event), cudaSuccess);
    return to_hex(handle);
  }
  // What this host knows, the peer's host knows then; and the other way round.
  void tell(Peer& peer) {
    fakecuda_release(++told_, 0);
    PEER_OK(peer.ask("hear " + std::to_string(told_)));
  }
  void hear(Peer& peer) {
    PEER_OK(peer.ask("tell " + std::to_string(++told_)));
    fakecuda_acquire(told_, 0);
  }
  static std::string error(const Answer& answer) {
    return answer.kind == Answer::Kind::kError ? answer.code : answer.describe();
  }
  static std::string number(cudaError_t error) { return std::to_string(static_cast<int>(error)); }

 private:
  std::uint64_t told_ = 0;
};

}  // namespace fakecuda::testing
