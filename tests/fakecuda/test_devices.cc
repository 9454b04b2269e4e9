// Devices: which there are, who sees them, who reaches whom.
#include <cstring>

#include "tests/fakecuda/fixture.h"
#include "tests/support/fakecuda/world.h"

namespace fakecuda::testing {
namespace {

class Devices : public Fakecuda {
 protected:
  void TearDown() override { unsetenv("CUDA_VISIBLE_DEVICES"); }
  static void see(const std::string& devices) {
    setenv("CUDA_VISIBLE_DEVICES", devices.c_str(), 1);
  }
  static int count() {
    int count = -1;
    cudaGetDeviceCount(&count);
    return count;
  }
  std::string uuid(u32 device) {
    std::string text = "GPU";
    const auto& bytes = world->layout().device[device].uuid;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      char byte[4];
      std::snprintf(byte, sizeof byte, "%02x", bytes[i]);
      text += (i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "") + std::string(byte);
    }
    return text;
  }
  // The device of the world that this process calls `ordinal`.
  bool is(int ordinal, u32 device) {
    cudaDeviceProp properties;
    EXPECT_EQ(cudaGetDeviceProperties(&properties, ordinal), cudaSuccess);
    return std::memcmp(properties.uuid.bytes, world->layout().device[device].uuid.data(), 16) == 0;
  }
};

TEST_F(Devices, AllAreVisibleByDefault) {
  EXPECT_EQ(count(), 2);
  EXPECT_TRUE(is(0, 0));
  EXPECT_TRUE(is(1, 1));
}

TEST_F(Devices, VisibilityRenumbers) {
  see("1,0");
  EXPECT_EQ(count(), 2);
  EXPECT_TRUE(is(0, 1));
  EXPECT_TRUE(is(1, 0));
}

TEST_F(Devices, OneIsNamedByItsUuid) {
  see(uuid(1));
  EXPECT_EQ(count(), 1);
  EXPECT_TRUE(is(0, 1));
}

TEST_F(Devices, TheFirstThatDoesNotExistEndsTheList) {
  see("0,7,1");
  EXPECT_EQ(count(), 1);
}

TEST_F(Devices, NoneVisibleIsAnError) {
  see("");
  int none = -1;
  EXPECT_EQ(cudaGetDeviceCount(&none), cudaErrorNoDevice);
  EXPECT_EQ(none, 0);
  void* address = nullptr;
  EXPECT_EQ(cudaMalloc(&address, 8), cudaErrorNoDevice);
}

TEST_F(Devices, WithoutAWorldThereIsNoDriver) {
  fakecuda_detach();
  unsetenv("FAKECUDA_WORLD");
  int version = -1;
  CUDA_OK(cudaDriverGetVersion(&version));
  EXPECT_EQ(version, 0);
  EXPECT_EQ(cudaGetDeviceCount(&version), cudaErrorInsufficientDriver);
  EXPECT_EQ(cudaFree(nullptr), cudaErrorInsufficientDriver);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInsufficientDriver);
  CUDA_OK(cudaRuntimeGetVersion(&version));
  EXPECT_EQ(version, CUDART_VERSION);
}

TEST_F(Devices, AnOldDriverIsRefused) {
  world->set(Knob::kDriverVersion, 12040);
  int version = 0;
  CUDA_OK(cudaDriverGetVersion(&version));
  EXPECT_EQ(version, 12040);
  EXPECT_EQ(cudaFree(nullptr), cudaErrorInsufficientDriver);
}

TEST_F(Devices, WhatACallNeedsMakesAContextAndNothingElseDoes) {
  int value = 0;
  CUDA_OK(cudaGetDeviceCount(&value));
  CUDA_OK(cudaDeviceGetAttribute(&value, cudaDevAttrIpcEventSupport, 0));
  cudaDeviceProp properties;
  CUDA_OK(cudaGetDeviceProperties(&properties, 0));
  EXPECT_EQ(world->contexts(getpid()), 0U);
  CUDA_OK(cudaSetDevice(1));
  EXPECT_EQ(world->contexts(getpid()), 1U);
  CUDA_OK(cudaFree(nullptr));
  EXPECT_EQ(world->contexts(getpid()), 1U);
}

TEST_F(Devices, AttributesFollowTheKnobs) {
  const auto attribute = [](cudaDeviceAttr which) {
    int value = -1;
    EXPECT_EQ(cudaDeviceGetAttribute(&value, which, 0), cudaSuccess);
    return value;
  };
  EXPECT_EQ(attribute(cudaDevAttrIpcEventSupport), 1);
  EXPECT_EQ(attribute(cudaDevAttrUnifiedAddressing), 1);
  EXPECT_EQ(attribute(cudaDevAttrManagedMemory), 0);
  world->set(Knob::kIpcEvents, 0);
  EXPECT_EQ(attribute(cudaDevAttrIpcEventSupport), 0);
  char bus_id[32] = "";
  CUDA_OK(cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, 1));
  EXPECT_STREQ(bus_id, "0000:02:00.0");
}

TEST_F(Devices, AKernelReachesAPeerOnlyAfterItIsEnabled) {
  int can = 0;
  CUDA_OK(cudaDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);
  CUDA_OK(cudaSetDevice(1));
  std::uint64_t* far = allocate(1);
  CUDA_OK(cudaSetDevice(0));
  CUDA_OK(cudaDeviceEnablePeerAccess(1, 0));
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  EXPECT_EQ(tk_fill(far, 1, 6, nullptr), 0);
  EXPECT_EQ(first_of(far), 6U);
  CUDA_OK(cudaFree(far));
  CUDA_OK(cudaDeviceDisablePeerAccess(1));
  EXPECT_EQ(cudaDeviceDisablePeerAccess(1), cudaErrorPeerAccessNotEnabled);
}

TEST_F(Devices, AKernelThatReachesAPeerUnasked) {
  CUDA_OK(cudaSetDevice(1));
  std::uint64_t* far = allocate(1);
  CUDA_OK(cudaSetDevice(0));
  EXPECT_EQ(tk_fill(far, 1, 6, nullptr), 0);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  CUDA_OK(cudaSetDevice(1));
  CUDA_OK(cudaFree(far));
}

TEST_F(Devices, PeersCanBeOutOfReach) {
  world->set(Knob::kPeerAccess, 0);
  int can = 1;
  CUDA_OK(cudaDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 0);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessUnsupported);
}

}  // namespace
}  // namespace fakecuda::testing
