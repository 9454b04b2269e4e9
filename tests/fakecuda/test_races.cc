// Races that are planted, each with a twin that is repaired. Gates and drains fix the order in
// time, which the checker does not know of, so that each race has one name.
#include "tests/fakecuda/fixture.h"

namespace fakecuda::testing {
namespace {

class Races : public Fakecuda {
 protected:
  void SetUp() override {
    data_ = allocate();
    one_ = new_stream();
    two_ = new_stream();
    event_ = new_event();
  }
  // Everything is given back, so that the planted race is all there is to find.
  std::vector<Finding> judge() {
    CHECK_OK(cudaStreamDestroy(one_));
    CHECK_OK(cudaStreamDestroy(two_));
    CHECK_OK(cudaEventDestroy(event_));
    CHECK_OK(cudaFree(data_));
    return world.findings();
  }
  static void CHECK_OK(cudaError_t error) { EXPECT_EQ(error, cudaSuccess); }
  void write(cudaStream_t stream, std::uint64_t value) {
    EXPECT_EQ(tk_fill(data_, kWords, value, stream), 0);
  }
  void read(cudaStream_t stream) {
    std::uint64_t* copy = copies_.emplace_back(allocate());
    EXPECT_EQ(tk_copy(copy, data_, kWords, stream), 0);
  }
  void free_copies() {
    for (std::uint64_t* copy : copies_) CHECK_OK(cudaFree(copy));
    copies_.clear();
  }
  void then(cudaStream_t stream) { CHECK_OK(fakecuda_drain(stream)); }

  std::uint64_t* data_ = nullptr;
  std::vector<std::uint64_t*> copies_;
  cudaStream_t one_ = nullptr;
  cudaStream_t two_ = nullptr;
  cudaEvent_t event_ = nullptr;
};

TEST_F(Races, ReadAfterWrite) {
  write(one_, 1);
  then(one_);
  read(two_);
  then(two_);
  free_copies();
  const Finding finding = only(judge());
  EXPECT_EQ(finding.what, What::kReadAfterWrite);
  EXPECT_EQ(finding.first.operation, "tk_fill");
  EXPECT_EQ(finding.second.operation, "tk_copy");
  EXPECT_EQ(finding.first.pid, static_cast<u32>(getpid()));
  EXPECT_EQ(finding.bytes, kWords * 8);
}

TEST_F(Races, ReadAfterWriteRepaired) {
  write(one_, 1);
  CUDA_OK(cudaEventRecord(event_, one_));
  CUDA_OK(cudaStreamWaitEvent(two_, event_, 0));
  read(two_);
  free_copies();
  EXPECT_THAT(judge(), ::testing::IsEmpty());
}

TEST_F(Races, WriteAfterRead) {
  read(one_);
  then(one_);
  write(two_, 2);
  then(two_);
  free_copies();
  EXPECT_THAT(only(judge()), Is(What::kWriteAfterRead));
}

TEST_F(Races, WriteAfterReadRepaired) {
  read(one_);
  CUDA_OK(cudaEventRecord(event_, one_));
  CUDA_OK(cudaStreamWaitEvent(two_, event_, 0));
  write(two_, 2);
  free_copies();
  EXPECT_THAT(judge(), ::testing::IsEmpty());
}

TEST_F(Races, WriteAfterWrite) {
  write(one_, 1);
  then(one_);
  write(two_, 2);
  then(two_);
  EXPECT_THAT(only(judge()), Is(What::kWriteAfterWrite));
}

TEST_F(Races, WriteAfterWriteRepairedByTheHost) {
  write(one_, 1);
  CUDA_OK(cudaStreamSynchronize(one_));
  write(two_, 2);
  EXPECT_THAT(judge(), ::testing::IsEmpty());
}

// The wait's call came before the record's, so it waits for nothing.
TEST_F(Races, AWaitThatIsTakenTooEarly) {
  CUDA_OK(cudaStreamWaitEvent(two_, event_, 0));
  write(one_, 1);
  CUDA_OK(cudaEventRecord(event_, one_));
  then(one_);
  read(two_);
  then(two_);
  free_copies();
  EXPECT_THAT(only(judge()), Is(What::kReadAfterWrite));
}

// It waits for the record that was the last one when it was called.
TEST_F(Races, AWaitForAnOlderRecord) {
  CUDA_OK(cudaEventRecord(event_, one_));
  CUDA_OK(cudaStreamWaitEvent(two_, event_, 0));
  write(one_, 1);
  CUDA_OK(cudaEventRecord(event_, one_));
  then(one_);
  read(two_);
  then(two_);
  free_copies();
  EXPECT_THAT(only(judge()), Is(What::kReadAfterWrite));
}

// The race is in what orders the two, not in when they ran.
TEST_F(Races, ARaceIsFoundThoughTheOtherStreamWaitsLong) {
  {
    Gate gate;
    write(one_, 1);
    CUDA_OK(cudaEventRecord(event_, one_));
    gate.hold(two_);
    write(two_, 2);
    then(one_);
    gate.open();
    then(two_);
  }
  EXPECT_THAT(only(judge()), Is(What::kWriteAfterWrite));
}

TEST_F(Races, DelaysDoNotHideARaceNorMakeOne) {
  world->set(Knob::kDelayUs, 300);
  for (int i = 0; i < 20; ++i) {
    write(one_, 1);
    CUDA_OK(cudaEventRecord(event_, one_));
    CUDA_OK(cudaStreamWaitEvent(two_, event_, 0));
    write(two_, 2);
    CUDA_OK(cudaEventRecord(event_, two_));
    CUDA_OK(cudaStreamWaitEvent(one_, event_, 0));
  }
  write(two_, 3);
  write(one_, 4);  // nothing orders this one behind the last
  EXPECT_THAT(only(judge()), Is(What::kWriteAfterWrite));
}

TEST_F(Races, CopiesAndFillsAreAccesses) {
  std::vector<std::uint64_t> host(kWords);
  CUDA_OK(cudaMemcpyAsync(data_, host.data(), kWords * 8, cudaMemcpyDefault, one_));
  then(one_);
  CUDA_OK(cudaMemsetAsync(data_, 0, 64, two_));
  then(two_);
  const Finding finding = only(judge());
  EXPECT_EQ(finding.first.operation, "cudaMemcpyAsync");
  EXPECT_EQ(finding.second.operation, "cudaMemsetAsync");
  EXPECT_EQ(finding.bytes, 64U);
}

TEST_F(Races, AHostThatLooksWithoutWaiting) {
  write(one_, 1);
  then(one_);
  EXPECT_NE(fakecuda_touch(data_, 8, FAKECUDA_READ), nullptr);
  const Finding finding = only(judge());
  EXPECT_EQ(finding.what, What::kReadAfterWrite);
  EXPECT_THAT(finding.second.agent, ::testing::HasSubstr("host side"));
}

TEST_F(Races, AHostThatWaitsBeforeItLooks) {
  write(one_, 7);
  CUDA_OK(cudaStreamSynchronize(one_));
  EXPECT_EQ(*static_cast<std::uint64_t*>(fakecuda_touch(data_, 8, FAKECUDA_READ)), 7U);
  EXPECT_THAT(judge(), ::testing::IsEmpty());
}

TEST_F(Races, AQueryThatSaysReadyOrders) {
  write(one_, 1);
  while (cudaStreamQuery(one_) == cudaErrorNotReady) std::this_thread::yield();
  write(two_, 2);
  EXPECT_THAT(judge(), ::testing::IsEmpty());
}

TEST_F(Races, ADestroyedStreamsWorkIsStillWaitedFor) {
  cudaStream_t third = new_stream();
  {
    Gate gate;
    gate.hold(third);
    write(third, 1);
    CUDA_OK(cudaStreamDestroy(third));
  }
  CUDA_OK(cudaDeviceSynchronize());
  write(two_, 2);
  EXPECT_THAT(judge(), ::testing::IsEmpty());
}

// With the knob, what one thread waited for says nothing to another.
TEST_F(Races, ThreadsApartNeedAnEdgeOfTheirOwn) {
  world->set(Knob::kThreadsApart, 1);
  write(one_, 1);
  CUDA_OK(cudaStreamSynchronize(one_));
  std::thread([&] { write(two_, 2); }).join();
  then(two_);
  EXPECT_THAT(only(judge()), Is(What::kWriteAfterWrite));
}

TEST_F(Races, ThreadsApartWithAnEdge) {
  world->set(Knob::kThreadsApart, 1);
  write(one_, 1);
  CUDA_OK(cudaStreamSynchronize(one_));
  fakecuda_release(1, 1);
  std::thread([&] {
    fakecuda_acquire(1, 1);
    write(two_, 2);
  }).join();
  EXPECT_THAT(judge(), ::testing::IsEmpty());
}

TEST_F(Races, ALeakIsFound) {
  CUDA_OK(cudaEventDestroy(event_));
  CUDA_OK(cudaStreamDestroy(one_));
  CUDA_OK(cudaStreamDestroy(two_));
  const Finding finding = only(world.findings());
  EXPECT_EQ(finding.what, What::kLeak);
  EXPECT_EQ(finding.text, "1 allocations");
}

TEST_F(Races, AReportNamesBothSides) {
  write(one_, 1);
  then(one_);
  write(two_, 2);
  then(two_);
  const std::string text = describe(judge());
  EXPECT_THAT(text, ::testing::HasSubstr("write after write: allocation "));
  EXPECT_THAT(text, ::testing::HasSubstr("earlier: tk_fill wrote\n    in stream "));
  EXPECT_THAT(text, ::testing::HasSubstr("later: tk_fill wrote\n    in stream "));
  EXPECT_THAT(text, ::testing::HasSubstr("device 0"));
}

}  // namespace
}  // namespace fakecuda::testing
