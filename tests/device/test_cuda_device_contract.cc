// GPUs keep the contract of devices: the memory that the daemon makes, opened by another
// process.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/device/cuda_device_backend.h"
#include "tests/contract/device_contract.h"
#include "tests/fakecuda/hex.h"
#include "tests/support/fakecuda/fakecuda.h"
#include "tests/support/fakecuda/private_world.h"
#include "tests/support/peer.h"

namespace memlease::testing {
namespace {

// A process that knows CUDA alone. What it is told and tells is declared to the checker.
class CudaNeighbour : public Neighbour {
 public:
  CudaNeighbour() { ask("stream s"); }
  ~CudaNeighbour() override { ask("destroy_stream s"); }
  CudaNeighbour(const CudaNeighbour&) = delete;
  CudaNeighbour& operator=(const CudaNeighbour&) = delete;

  std::optional<std::uint64_t> differing(const wire::DeviceHandle& memory, std::uint64_t words,
                                         std::uint64_t expected) override {
    if (!open(memory)) return std::nullopt;
    const Answer answer =
        peer_.ask("check data " + std::to_string(words) + " " + std::to_string(expected) + " s");
    if (!close() || !answer.ok()) return std::nullopt;
    return answer.number();
  }
  bool fill(const wire::DeviceHandle& memory, std::uint64_t words, std::uint64_t value) override {
    return open(memory) &&
           ask("fill data " + std::to_string(words) + " " + std::to_string(value) + " s") &&
           ask("sync s") && close();
  }

 private:
  bool ask(const std::string& command) { return peer_.ask(command).ok(); }
  bool open(const wire::DeviceHandle& memory) {
    return checker_release() && ask("import data " + fakecuda::testing::to_hex(memory));
  }
  bool close() { return ask("close data") && checker_acquire(); }
  // For the checker, which a GPU has not.
  bool checker_release() {
    if (!fakecuda::is_loaded()) return true;
    fakecuda_release(++last_id_, 0);
    return ask("checker_acquire " + std::to_string(last_id_));
  }
  bool checker_acquire() {
    if (!fakecuda::is_loaded()) return true;
    const bool released = ask("checker_release " + std::to_string(++last_id_));
    fakecuda_acquire(last_id_, 0);
    return released;
  }

  Peer peer_{""};
  std::uint64_t last_id_ = 0;
};

TEST(DeviceContract, GpusKeepIt) {
  const fakecuda::PrivateWorld world;
  auto gpus = server::CudaDeviceBackend::all();
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  CudaNeighbour neighbour;
  EXPECT_THAT(violations_of(*gpus->front(), neighbour), ::testing::IsEmpty());
}

}  // namespace
}  // namespace memlease::testing
