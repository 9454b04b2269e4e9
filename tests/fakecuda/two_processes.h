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
  // For the checker: what this host has seen, the peer's host has seen then; and the other way
  // round.
  void checker_release(Peer& peer) {
    fakecuda_release(++last_id_, 0);
    PEER_OK(peer.ask("checker_acquire " + std::to_string(last_id_)));
  }
  void checker_acquire(Peer& peer) {
    PEER_OK(peer.ask("checker_release " + std::to_string(++last_id_)));
    fakecuda_acquire(last_id_, 0);
  }
  static std::string error(const Answer& answer) {
    return answer.kind == Answer::Kind::kError ? answer.code : answer.describe();
  }
  static std::string number(cudaError_t error) { return std::to_string(static_cast<int>(error)); }

 private:
  std::uint64_t last_id_ = 0;
};

}  // namespace fakecuda::testing
