// Memory: who may touch it and how much there is.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "tests/fakecuda/fixture.h"

namespace fakecuda::testing {
namespace {

class Memory : public Fakecuda {};

TEST_F(Memory, BytesComeBackAsTheyWere) {
  std::vector<std::uint64_t> sent(1000);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = i * i;
  std::vector<std::uint64_t> got(sent.size());
  std::uint64_t* one = allocate(sent.size());
  std::uint64_t* two = allocate(sent.size());
  CUDA_OK(cudaMemcpy(one, sent.data(), sent.size() * 8, cudaMemcpyHostToDevice));
  CUDA_OK(cudaMemcpy(two, one, sent.size() * 8, cudaMemcpyDeviceToDevice));
  CUDA_OK(cudaMemcpy(got.data(), two, got.size() * 8, cudaMemcpyDeviceToHost));
  EXPECT_EQ(sent, got);
  CUDA_OK(cudaFree(one));
  CUDA_OK(cudaFree(two));
}

TEST_F(Memory, RowsAreCopiedByTheirPitch) {
  std::uint64_t* data = allocate(64);
  CUDA_OK(cudaMemset(data, 0, 512));
  const std::uint64_t sent[] = {1, 2, 3, 4};
  CUDA_OK(cudaMemcpy2D(data, 64, sent, 16, 16, 2, cudaMemcpyHostToDevice));
  std::uint64_t got[16] = {};
  CUDA_OK(cudaMemcpy(got, data, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT_EQ(got[1], 2U);
  EXPECT_EQ(got[2], 0U);
  EXPECT_EQ(got[8], 3U);
  EXPECT_EQ(cudaMemcpy2D(data, 8, sent, 16, 16, 2, cudaMemcpyHostToDevice),
            cudaErrorInvalidPitchValue);
  CUDA_OK(cudaFree(data));
}

// A copy from pageable memory takes the bytes when it is called; from pinned memory, when it runs.
TEST_F(Memory, PageableBytesAreStaged) {
  std::uint64_t* data = allocate(2);
  const cudaStream_t stream = new_stream();
  void* pinned = nullptr;
  CUDA_OK(cudaMallocHost(&pinned, 8));
  std::uint64_t pageable = 1;
  std::memcpy(pinned, &pageable, 8);
  {
    Gate gate;
    gate.hold(stream);
    CUDA_OK(cudaMemcpyAsync(data, &pageable, 8, cudaMemcpyHostToDevice, stream));
    CUDA_OK(cudaMemcpyAsync(data + 1, pinned, 8, cudaMemcpyHostToDevice, stream));
    pageable = 2;
    std::memcpy(pinned, &pageable, 8);
  }
  CUDA_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(first_of(data), 1U);
  EXPECT_EQ(first_of(data + 1), 2U);
  CUDA_OK(cudaFreeHost(pinned));
  CUDA_OK(cudaStreamDestroy(stream));
  CUDA_OK(cudaFree(data));
}

TEST_F(Memory, ACopyToPageableMemoryIsDoneWhenItReturns) {
  std::uint64_t* data = allocate(1);
  const cudaStream_t stream = new_stream();
  EXPECT_EQ(tk_spin(2000, stream), 0);
  EXPECT_EQ(tk_fill(data, 1, 9, stream), 0);
  std::uint64_t got = 0;
  CUDA_OK(cudaMemcpyAsync(&got, data, 8, cudaMemcpyDeviceToHost, stream));
  EXPECT_EQ(got, 9U);
  CUDA_OK(cudaStreamDestroy(stream));
  CUDA_OK(cudaFree(data));
}

TEST_F(Memory, AKindThatContradictsTheAddressesIsRefused) {
  std::uint64_t* data = allocate(1);
  std::uint64_t host = 0;
  EXPECT_EQ(cudaMemcpy(data, &host, 8, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(&host, data, 8, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  CUDA_OK(cudaMemcpy(&host, data, 8, cudaMemcpyDefault));
  CUDA_OK(cudaFree(data));
}

TEST_F(Memory, CapacityIsCountedInGranules) {
  std::size_t before = 0;
  std::size_t total = 0;
  CUDA_OK(cudaMemGetInfo(&before, &total));
  EXPECT_EQ(before, total);
  std::uint64_t* data = allocate(1);
  std::size_t left = 0;
  CUDA_OK(cudaMemGetInfo(&left, &total));
  EXPECT_EQ(before - left, kGranularity);
  void* more = nullptr;
  EXPECT_EQ(cudaMalloc(&more, total), cudaErrorMemoryAllocation);
  EXPECT_EQ(more, nullptr);
  EXPECT_EQ(cudaMalloc(&more, SIZE_MAX), cudaErrorMemoryAllocation);
  CUDA_OK(cudaFree(data));
  CUDA_OK(cudaMalloc(&more, total));
  CUDA_OK(cudaFree(more));
}

TEST_F(Memory, NothingIsAllocatedForNothing) {
  void* address = &address;
  CUDA_OK(cudaMalloc(&address, 0));
  EXPECT_EQ(address, nullptr);
  CUDA_OK(cudaFree(nullptr));
}

TEST_F(Memory, OnlyWhatWasAllocatedIsFreedAndOnce) {
  std::uint64_t* data = allocate(2);
  EXPECT_EQ(cudaFree(data + 1), cudaErrorInvalidValue);
  CUDA_OK(cudaFree(data));
  EXPECT_EQ(cudaFree(data), cudaErrorInvalidValue);
}

TEST_F(Memory, FreeingWaitsForTheDevice) {
  std::uint64_t* data = allocate(1);
  std::uint64_t* other = allocate(1);
  const cudaStream_t stream = new_stream();
  EXPECT_EQ(tk_spin(2000, stream), 0);
  EXPECT_EQ(tk_fill(data, 1, 1, stream), 0);
  CUDA_OK(cudaFree(other));
  CUDA_OK(cudaStreamQuery(stream));
  CUDA_OK(cudaStreamDestroy(stream));
  CUDA_OK(cudaFree(data));
}

TEST_F(Memory, AnAddressIsAlignedAndKnown) {
  std::uint64_t* data = allocate(100);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % kGranularity, 0U);
  cudaPointerAttributes attributes = {};
  CUDA_OK(cudaPointerGetAttributes(&attributes, data + 50));
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.device, 0);
  EXPECT_EQ(attributes.devicePointer, data + 50);
  EXPECT_EQ(attributes.hostPointer, nullptr);
  CUDA_OK(cudaPointerGetAttributes(&attributes, &attributes));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  CUDA_OK(cudaPointerGetAttributes(&attributes, data + 100));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered) << "one past the end";
  CUDA_OK(cudaFree(data));
}

TEST_F(Memory, PinnedMemoryIsTheHostsAndTheDevices) {
  void* pinned = nullptr;
  CUDA_OK(cudaHostAlloc(&pinned, 64, cudaHostAllocMapped));
  cudaPointerAttributes attributes = {};
  CUDA_OK(cudaPointerGetAttributes(&attributes, pinned));
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  void* device = nullptr;
  CUDA_OK(cudaHostGetDevicePointer(&device, pinned, 0));
  EXPECT_EQ(tk_fill(static_cast<std::uint64_t*>(device), 8, 3, nullptr), 0);
  CUDA_OK(cudaDeviceSynchronize());
  EXPECT_EQ(*static_cast<std::uint64_t*>(pinned), 3U);
  CUDA_OK(cudaFreeHost(pinned));
}

TEST_F(Memory, RegisteringTwiceIsRefused) {
  std::vector<std::uint64_t> own(1024);
  CUDA_OK(cudaHostRegister(own.data(), 8192, cudaHostRegisterDefault));
  EXPECT_EQ(cudaHostRegister(own.data(), 8192, cudaHostRegisterDefault),
            cudaErrorHostMemoryAlreadyRegistered);
  CUDA_OK(cudaHostUnregister(own.data()));
  EXPECT_EQ(cudaHostUnregister(own.data()), cudaErrorHostMemoryNotRegistered);
}

// Pages as mmap gives them.
struct Pages {
  explicit Pages(int access)
      : address(mmap(nullptr, 8192, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    EXPECT_NE(address, MAP_FAILED);
  }
  ~Pages() {
    if (mapped) munmap(address, 8192);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  void unmap() {
    munmap(address, 8192);
    mapped = false;
  }

  void* const address;
  bool mapped = true;
};

TEST_F(Memory, WhatOverlapsIsRegisteredAlready) {
  const Pages pages(PROT_READ | PROT_WRITE);
  auto* const second = static_cast<char*>(pages.address) + 4096;
  CUDA_OK(cudaHostRegister(second, 4096, cudaHostRegisterPortable));
  EXPECT_EQ(cudaHostRegister(pages.address, 8192, cudaHostRegisterPortable),
            cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_EQ(cudaHostUnregister(pages.address), cudaErrorHostMemoryNotRegistered);
  CUDA_OK(cudaHostUnregister(second));
}

TEST_F(Memory, WhatCannotBeLockedIsNotRegistered) {
  Pages pages(PROT_READ);
  EXPECT_EQ(cudaHostRegister(pages.address, 8192, cudaHostRegisterDefault), cudaErrorInvalidValue);
  pages.unmap();
  world->set(Knob::kReadOnlyRegister, 1);
  EXPECT_EQ(cudaHostRegister(pages.address, 8192, cudaHostRegisterReadOnly), cudaErrorInvalidValue);
}

TEST_F(Memory, PagesThatAreUnmappedFirstAreFound) {
  Pages pages(PROT_READ | PROT_WRITE);
  CUDA_OK(cudaHostRegister(pages.address, 8192, cudaHostRegisterDefault));
  pages.unmap();
  CUDA_OK(cudaHostUnregister(pages.address));
  EXPECT_THAT(only(world.findings()), Is(What::kMisuse));
}

TEST_F(Memory, PagesThatStayRegisteredAreALeak) {
  const Pages pages(PROT_READ | PROT_WRITE);
  CUDA_OK(cudaHostRegister(pages.address, 8192, cudaHostRegisterDefault));
  EXPECT_THAT(only(world.findings()), Is(What::kLeak));
}

// The host goes on before the bytes are there: from registered memory, and to it.
TEST_F(Memory, CopiesOfRegisteredMemoryAreAsynchronous) {
  const Pages pages(PROT_READ | PROT_WRITE);
  auto* const host = static_cast<std::uint64_t*>(pages.address);
  CUDA_OK(cudaHostRegister(pages.address, 8192, cudaHostRegisterDefault));
  std::uint64_t* data = allocate(2);
  const cudaStream_t stream = new_stream();
  EXPECT_EQ(tk_fill(data, 2, 5, stream), 0);
  CUDA_OK(cudaStreamSynchronize(stream));
  {
    Gate gate;
    gate.hold(stream);
    host[0] = 1;
    CUDA_OK(cudaMemcpyAsync(data, host, 8, cudaMemcpyHostToDevice, stream));
    CUDA_OK(cudaMemcpyAsync(host + 1, data + 1, 8, cudaMemcpyDeviceToHost, stream));
    EXPECT_EQ(host[1], 0U);
    host[0] = 2;
  }
  CUDA_OK(cudaStreamSynchronize(stream));
  EXPECT_EQ(first_of(data), 2U);
  EXPECT_EQ(host[1], 5U);
  CUDA_OK(cudaStreamDestroy(stream));
  CUDA_OK(cudaFree(data));
  CUDA_OK(cudaHostUnregister(pages.address));
}

TEST_F(Memory, ReadOnlyRegistrationIsAKnobAndIsKept) {
  std::vector<std::uint64_t> own(1024, 5);
  world->set(Knob::kReadOnlyRegister, 0);
  EXPECT_EQ(cudaHostRegister(own.data(), 8192, cudaHostRegisterReadOnly), cudaErrorNotSupported);
  world->set(Knob::kReadOnlyRegister, 1);
  int supported = 0;
  CUDA_OK(cudaDeviceGetAttribute(&supported, cudaDevAttrHostRegisterReadOnlySupported, 0));
  EXPECT_EQ(supported, 1);
  CUDA_OK(cudaHostRegister(own.data(), 8192, cudaHostRegisterReadOnly));
  std::uint64_t* data = allocate(1024);
  EXPECT_EQ(tk_copy(data, own.data(), 1024, nullptr), 0);
  EXPECT_EQ(first_of(data), 5U);
  EXPECT_EQ(tk_fill(own.data(), 1, 1, nullptr), 0);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_EQ(own[0], 5U);
  EXPECT_THAT(only(world.findings()), Is(What::kLeak));  // a broken context frees nothing
}

// The kernel tells by EFAULT where a program would get SIGSEGV.
bool readable(const void* address) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const bool can = write(ends[1], address, 8) == 8;
  close(ends[0]);
  close(ends[1]);
  return can;
}
bool writable(void* address) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const std::uint64_t value = 1;
  EXPECT_EQ(write(ends[1], &value, 8), 8);
  const bool can = read(ends[0], address, 8) == 8;
  close(ends[0]);
  close(ends[1]);
  return can;
}

// A device's address means nothing to the host.
TEST_F(Memory, TheHostCannotTouchDeviceMemory) {
  std::uint64_t* data = allocate(1);
  EXPECT_FALSE(readable(data));
  EXPECT_FALSE(writable(data));
  CUDA_OK(cudaFree(data));
}

// What is declared to be read can be read, and not be written.
TEST_F(Memory, AWriteThatWasDeclaredARead) {
  std::uint64_t* data = allocate(1);
  void* to_read = fakecuda_touch(data, 8, FAKECUDA_READ);
  EXPECT_TRUE(readable(to_read));
  EXPECT_FALSE(writable(to_read));
  EXPECT_TRUE(writable(fakecuda_touch(data, 8, FAKECUDA_WRITE)));
  EXPECT_EQ(first_of(data), 1U);
  CUDA_OK(cudaFree(data));
}

}  // namespace
}  // namespace fakecuda::testing
