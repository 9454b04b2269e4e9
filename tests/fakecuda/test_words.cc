// Words that streams write and wait for.
#include <cuda.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fakecuda/fixture.h"

namespace fakecuda::testing {
namespace {

class Words : public Fakecuda {
 protected:
  void SetUp() override {
    word_ = allocate();
    data_ = allocate();
    one_ = new_stream();
    two_ = new_stream();
    CUDA_OK(cudaMemset(word_, 0, 8));
    CUDA_OK(cudaDeviceSynchronize());
  }
  void clean_up() {
    CUDA_OK(cudaStreamDestroy(one_));
    CUDA_OK(cudaStreamDestroy(two_));
    CUDA_OK(cudaFree(word_));
    CUDA_OK(cudaFree(data_));
  }
  CUdeviceptr at() const { return reinterpret_cast<CUdeviceptr>(word_); }

  std::uint64_t* word_ = nullptr;
  std::uint64_t* data_ = nullptr;
  cudaStream_t one_ = nullptr;
  cudaStream_t two_ = nullptr;
};

TEST_F(Words, AWaitMayComeBeforeItsWriteAndOrders) {
  ASSERT_EQ(cuStreamWaitValue64(two_, at(), 1, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
  EXPECT_EQ(tk_add(data_, 16, 1, two_), 0);
  EXPECT_EQ(cudaStreamQuery(two_), cudaErrorNotReady);
  EXPECT_EQ(tk_fill(data_, 16, 1, one_), 0);
  ASSERT_EQ(cuStreamWriteValue64(one_, at(), 1, CU_STREAM_WRITE_VALUE_DEFAULT), CUDA_SUCCESS);
  CUDA_OK(cudaStreamSynchronize(two_));
  EXPECT_EQ(first_of(data_), 2U);
  clean_up();
}

TEST_F(Words, AWaitForAnEarlierValueDoesNotOrderWhatCameAfterIt) {
  ASSERT_EQ(cuStreamWriteValue64(one_, at(), 1, 0), CUDA_SUCCESS);
  EXPECT_EQ(tk_fill(data_, 16, 1, one_), 0);
  ASSERT_EQ(cuStreamWriteValue64(one_, at(), 2, 0), CUDA_SUCCESS);
  CUDA_OK(fakecuda_drain(one_));
  ASSERT_EQ(cuStreamWaitValue64(two_, at(), 1, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
  EXPECT_EQ(tk_fill(data_, 16, 2, two_), 0);
  clean_up();
  EXPECT_THAT(only(world.findings()), Is(What::kWriteAfterWrite));
}

TEST_F(Words, ComparingIsOnACircle) {
  ASSERT_EQ(cuStreamWriteValue64(one_, at(), 5, 0), CUDA_SUCCESS);
  // Farther than half the circle behind is ahead: this wait would be stranded.
  ASSERT_EQ(cuStreamWaitValue64(two_, at(), 3, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
  CUDA_OK(cudaStreamSynchronize(two_));
  ASSERT_EQ(cuStreamWaitValue64(two_, at(), 6, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
  CUDA_OK(cudaStreamSynchronize(one_));
  EXPECT_EQ(cudaStreamQuery(two_), cudaErrorNotReady);
  ASSERT_EQ(cuStreamWriteValue64(one_, at(), 6, 0), CUDA_SUCCESS);
  CUDA_OK(cudaStreamSynchronize(two_));
  clean_up();
}

TEST_F(Words, AWordThatGoesBackwardsIsFound) {
  ASSERT_EQ(cuStreamWriteValue64(one_, at(), 5, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWriteValue64(one_, at(), 4, 0), CUDA_SUCCESS);
  clean_up();
  EXPECT_THAT(only(world.findings()), Is(What::kMisuse));
}

TEST_F(Words, ThereAreOtherConditionsAndWidths) {
  ASSERT_EQ(cuStreamWriteValue32(one_, at(), 6, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitValue32(two_, at(), 6, CU_STREAM_WAIT_VALUE_EQ), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitValue32(two_, at(), 2, CU_STREAM_WAIT_VALUE_AND), CUDA_SUCCESS);
  CUDA_OK(cudaStreamSynchronize(two_));
  ASSERT_EQ(cuStreamWaitValue64(two_, at(), ~6ULL, CU_STREAM_WAIT_VALUE_NOR), CUDA_SUCCESS);
  EXPECT_EQ(cudaStreamQuery(two_), cudaErrorNotReady);
  ASSERT_EQ(cuStreamWriteValue64(one_, at(), 8, 0), CUDA_SUCCESS);
  CUDA_OK(cudaStreamSynchronize(two_));
  clean_up();
}

TEST_F(Words, WrongArgumentsAreRefused) {
  EXPECT_EQ(cuStreamWriteValue64(one_, at() + 4, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWaitValue64(one_, at(), 1, 17), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamWaitValue64(one_, at(), 1, CU_STREAM_WAIT_VALUE_FLUSH),
            CUDA_ERROR_INVALID_VALUE);
  std::uint64_t host = 0;
  EXPECT_EQ(cuStreamWriteValue64(one_, reinterpret_cast<CUdeviceptr>(&host), 1, 0),
            CUDA_ERROR_INVALID_VALUE);
  world->set(Knob::kStreamMemoryOps, 0);
  EXPECT_EQ(cuStreamWriteValue64(one_, at(), 1, 0), CUDA_ERROR_NOT_SUPPORTED);
  clean_up();
}

// The pages of a shared file are the same words wherever they are mapped.
TEST_F(Words, AWordOfASharedFileHasManyAddresses) {
  const int fd = memfd_create("words", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(fd, 8192), 0);
  void* there[2];
  for (void*& mapped : there) {
    mapped = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CUDA_OK(cudaHostRegister(mapped, 8192, cudaHostRegisterDefault));
  }
  const auto at_first = reinterpret_cast<CUdeviceptr>(there[0]) + 4096;
  const auto at_second = reinterpret_cast<CUdeviceptr>(there[1]) + 4096;
  ASSERT_EQ(cuStreamWaitValue64(two_, at_second, 1, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
  EXPECT_EQ(tk_add(data_, 16, 1, two_), 0);
  EXPECT_EQ(tk_fill(data_, 16, 1, one_), 0);
  ASSERT_EQ(cuStreamWriteValue64(one_, at_first, 1, 0), CUDA_SUCCESS);
  CUDA_OK(cudaStreamSynchronize(two_));
  EXPECT_EQ(first_of(data_), 2U);
  for (void* mapped : there) {
    CUDA_OK(cudaHostUnregister(mapped));
    munmap(mapped, 8192);
  }
  close(fd);
  clean_up();
}

TEST_F(Words, PagesAreUnregisteredAfterAWait) {
  alignas(4096) static std::uint64_t words[512];
  words[0] = 0;
  CUDA_OK(cudaHostRegister(words, sizeof words, cudaHostRegisterDefault));
  const auto host = reinterpret_cast<CUdeviceptr>(words);
  ASSERT_EQ(cuStreamWriteValue64(one_, host, 1, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitValue64(two_, host, 1, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
  CUDA_OK(cudaStreamSynchronize(two_));
  CUDA_OK(cudaHostUnregister(words));
  clean_up();
}

// The value is there already, but the stream is held up before it looks.
TEST_F(Words, PagesThatAreUnregisteredUnderAWaitAreFound) {
  world->set(Knob::kClosesWait, 0);
  alignas(4096) static std::uint64_t words[512];
  words[0] = 0;
  const auto host = reinterpret_cast<CUdeviceptr>(words);
  CUDA_OK(cudaHostRegister(words, sizeof words, cudaHostRegisterDefault));
  ASSERT_EQ(cuStreamWriteValue64(one_, host, 1, 0), CUDA_SUCCESS);
  CUDA_OK(cudaStreamSynchronize(one_));
  ASSERT_EQ(cuStreamWaitValue64(two_, at(), 1, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitValue64(two_, host, 1, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
  CUDA_OK(cudaHostUnregister(words));
  ASSERT_EQ(cuStreamWriteValue64(one_, at(), 1, 0), CUDA_SUCCESS);
  CUDA_OK(cudaStreamSynchronize(two_));
  clean_up();
  EXPECT_THAT(only(world.findings()), Is(What::kMisuse));
}

TEST_F(Words, RegisteredMemoryMayHaveOtherAddressesOnTheDevice) {
  world->set(Knob::kRegisteredInPlace, 0);
  alignas(4096) static std::uint64_t words[512];
  CUDA_OK(cudaHostRegister(words, sizeof words, cudaHostRegisterDefault));
  const auto host = reinterpret_cast<CUdeviceptr>(words);
  EXPECT_EQ(cuStreamWriteValue64(one_, host, 1, 0), CUDA_ERROR_INVALID_VALUE);
  CUDA_OK(cudaHostUnregister(words));
  clean_up();
}

TEST_F(Words, ACpusStoreIsSeenIfTheKnobSaysSo) {
  world->set(Knob::kCpuStoreWakes, 0);
  alignas(4096) static std::uint64_t words[512];
  words[0] = 0;
  CUDA_OK(cudaHostRegister(words, sizeof words, cudaHostRegisterDefault));
  const auto host = reinterpret_cast<CUdeviceptr>(words);
  ASSERT_EQ(cuStreamWaitValue64(two_, host, 1, CU_STREAM_WAIT_VALUE_GEQ), CUDA_SUCCESS);
  CUDA_OK(fakecuda_pause(one_, 20'000));
  CUDA_OK(cudaStreamSynchronize(one_));
  __atomic_store_n(&words[0], 1, __ATOMIC_SEQ_CST);
  CUDA_OK(fakecuda_pause(one_, 20'000));
  CUDA_OK(cudaStreamSynchronize(one_));
  EXPECT_EQ(cudaStreamQuery(two_), cudaErrorNotReady);
  world->set(Knob::kCpuStoreWakes, 1);
  CUDA_OK(cudaStreamSynchronize(two_));
  CUDA_OK(cudaHostUnregister(words));
  clean_up();
  EXPECT_THAT(only(world.findings()), Is(What::kOrphanWait));
}

}  // namespace
}  // namespace fakecuda::testing
