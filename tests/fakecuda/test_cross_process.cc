// Planted races between processes, each with its repaired twin, and processes that are killed.
#include <cuda.h>

#include "tests/fakecuda/two_processes.h"

namespace fakecuda::testing {
namespace {

// One array, written here and used there.
class CrossProcess : public TwoProcesses {
 protected:
  void SetUp() override {
    data_ = allocate();
    stream_ = new_stream();
    event_ = new_event(cudaEventInterprocess | cudaEventDisableTiming);
    PEER_OK(peer_.ask("import data " + exported(data_)));
    PEER_OK(peer_.ask("import_event event " + exported(event_)));
    PEER_OK(peer_.ask("stream s"));
  }
  void write(std::uint64_t value) { EXPECT_EQ(tk_fill(data_, kWords, value, stream_), 0); }
  void peer_writes() { PEER_OK(peer_.ask("fill data 262144 9 s")); }
  void peer_reads() { PEER_OK(peer_.ask("check data 262144 1 s")); }
  void record() { EXPECT_EQ(cudaEventRecord(event_, stream_), cudaSuccess); }
  void then() { EXPECT_EQ(fakecuda_drain(stream_), cudaSuccess); }
  // The peer lets go in order, then so do we.
  std::vector<Finding> judge() {
    for (const char* command :
         {"sync s", "close data", "destroy_event event", "destroy_stream s"}) {
      PEER_OK(peer_.ask(command));
    }
    checker_acquire(peer_);
    clean_up();
    return world.findings();
  }
  void clean_up() {
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    EXPECT_EQ(cudaEventDestroy(event_), cudaSuccess);
    EXPECT_EQ(cudaFree(data_), cudaSuccess);
  }

  Peer peer_{""};
  std::uint64_t* data_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t event_ = nullptr;
};

TEST_F(CrossProcess, ReadAfterWrite) {
  write(1);
  then();
  peer_reads();
  const Finding finding = only(judge());
  EXPECT_EQ(finding.what, What::kReadAfterWrite);
  EXPECT_EQ(finding.first.pid, static_cast<u32>(getpid()));
  EXPECT_EQ(finding.second.pid, static_cast<u32>(peer_.pid()));
  EXPECT_EQ(finding.second.operation, "tk_check");
}

TEST_F(CrossProcess, ReadAfterWriteRepaired) {
  write(1);
  record();
  PEER_OK(peer_.ask("wait s event"));
  peer_reads();
  EXPECT_THAT(judge(), ::testing::IsEmpty());
}

// R-SYNC-3: what would happen, were a version published before its record.
TEST_F(CrossProcess, AWaitBeforeTheRecordIsNone) {
  PEER_OK(peer_.ask("wait s event"));
  write(1);
  record();
  then();
  peer_reads();
  EXPECT_THAT(only(judge()), Is(What::kReadAfterWrite));
}

// The host's word alone orders nothing that the device does.
TEST_F(CrossProcess, AMessageIsNoWait) {
  write(1);
  record();
  checker_release(peer_);
  then();
  peer_reads();
  EXPECT_THAT(only(judge()), Is(What::kReadAfterWrite));
}

TEST_F(CrossProcess, AMessageAfterTheHostWaitedIs) {
  write(1);
  CUDA_OK(cudaStreamSynchronize(stream_));
  checker_release(peer_);
  peer_reads();
  EXPECT_THAT(judge(), ::testing::IsEmpty());
}

TEST_F(CrossProcess, WriteAfterRead) {
  peer_reads();
  write(2);
  then();
  EXPECT_THAT(only(judge()), Is(What::kWriteAfterRead));
}

TEST_F(CrossProcess, WriteAfterReadRepaired) {
  peer_reads();
  PEER_OK(peer_.ask("record event s"));
  CUDA_OK(cudaStreamWaitEvent(stream_, event_, 0));
  write(2);
  EXPECT_THAT(judge(), ::testing::IsEmpty());
}

TEST_F(CrossProcess, WriteAfterWrite) {
  write(1);
  then();
  peer_writes();
  PEER_OK(peer_.ask("drain s"));
  EXPECT_THAT(only(judge()), Is(What::kWriteAfterWrite));
}

TEST_F(CrossProcess, WriteAfterWriteRepaired) {
  write(1);
  record();
  PEER_OK(peer_.ask("wait s event"));
  peer_writes();
  EXPECT_THAT(judge(), ::testing::IsEmpty());
}

// A word in its own memory, which the peer opens too.
class CrossProcessWords : public CrossProcess {
 protected:
  void SetUp() override {
    CrossProcess::SetUp();
    word_ = allocate();
    PEER_OK(peer_.ask("import word " + exported(word_)));
  }
  std::vector<Finding> judge_all() {
    PEER_OK(peer_.ask("sync s"));
    PEER_OK(peer_.ask("close word"));
    checker_acquire(peer_);
    EXPECT_EQ(cudaFree(word_), cudaSuccess);
    return judge();
  }
  void write_word(std::uint64_t value) {
    EXPECT_EQ(cuStreamWriteValue64(stream_, reinterpret_cast<CUdeviceptr>(word_), value, 0),
              CUDA_SUCCESS);
  }

  std::uint64_t* word_ = nullptr;
};

TEST_F(CrossProcessWords, OrderWhatTheirWaitersDo) {
  PEER_OK(peer_.ask("wait_word word 1 s"));  // before there is anything to wait for
  write(1);
  write_word(1);
  peer_reads();
  EXPECT_THAT(judge_all(), ::testing::IsEmpty());
}

TEST_F(CrossProcessWords, DoNotOrderWhatIsWrittenTooEarly) {
  write_word(1);
  write(1);
  then();
  PEER_OK(peer_.ask("wait_word word 1 s"));
  peer_reads();
  EXPECT_THAT(only(judge_all()), Is(What::kReadAfterWrite));
}

TEST_F(CrossProcessWords, AreNotWrittenByTheDead) {
  PEER_OK(peer_.ask("gate s"));
  PEER_OK(peer_.ask("write_word word 1 s"));
  EXPECT_EQ(cuStreamWaitValue64(stream_, reinterpret_cast<CUdeviceptr>(word_), 1,
                                CU_STREAM_WAIT_VALUE_GEQ),
            CUDA_SUCCESS);
  peer_.kill();
  EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady);
  const cudaStream_t later = new_stream();
  EXPECT_EQ(cuStreamWriteValue64(later, reinterpret_cast<CUdeviceptr>(word_), 1, 0), CUDA_SUCCESS);
  CUDA_OK(cudaStreamSynchronize(stream_));
  CUDA_OK(cudaStreamDestroy(later));
  CUDA_OK(cudaFree(word_));
  clean_up();
}

TEST_F(CrossProcess, FreedUnderAReader) {
  peer_reads();
  clean_up();
  for (const char* command : {"close data", "destroy_event event", "destroy_stream s"}) {
    PEER_OK(peer_.ask(command));
  }
  EXPECT_THAT(world.findings(),
              ::testing::UnorderedElementsAre(Is(What::kWriteAfterRead), Is(What::kMisuse)));
}

TEST_F(CrossProcess, AReaderAfterItWasFreed) {
  clean_up();
  checker_release(peer_);
  peer_reads();
  for (const char* command : {"close data", "destroy_event event", "destroy_stream s"}) {
    PEER_OK(peer_.ask(command));
  }
  EXPECT_THAT(world.findings(),
              ::testing::UnorderedElementsAre(Is(What::kUseAfterFree), Is(What::kMisuse)));
}

TEST_F(CrossProcess, AReaderWhoseWorkIsPendingWhenItCloses) {
  world->set(Knob::kClosesWait, 0);
  PEER_OK(peer_.ask("gate s"));
  PEER_OK(peer_.ask("fill data 16 1 s"));
  PEER_OK(peer_.ask("close data"));
  PEER_OK(peer_.ask("open_gate"));
  PEER_OK(peer_.ask("drain s"));
  EXPECT_EQ(error(peer_.ask("sync s")), number(cudaErrorIllegalAddress));
  peer_.kill();
  clean_up();
}

// --- The end of a process

TEST_F(CrossProcess, WhatAKilledProcessQueuedIsNeverDone) {
  PEER_OK(peer_.ask("gate s"));
  peer_writes();
  PEER_OK(peer_.ask("record event s"));
  CUDA_OK(cudaStreamWaitEvent(stream_, event_, 0));
  peer_.kill();
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady) << "and never will be";
  EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady);
  EXPECT_EQ(first_of(data_), 0U);
  // The process's own end does not wait for that.
  EXPECT_THAT(only(world.findings()), Is(What::kLeak));
}

TEST_F(CrossProcess, ANewRecordDoesNotFreeWhoWaitsForADeadOne) {
  PEER_OK(peer_.ask("gate s"));
  PEER_OK(peer_.ask("record event s"));
  CUDA_OK(cudaStreamWaitEvent(stream_, event_, 0));
  peer_.kill();
  const cudaStream_t later = new_stream();
  CUDA_OK(cudaEventRecord(event_, later));
  CUDA_OK(cudaEventSynchronize(event_));
  EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady);
  world->set(Knob::kLaterRecordReleases, 1);
  CUDA_OK(cudaStreamSynchronize(stream_));
  CUDA_OK(cudaStreamDestroy(later));
  clean_up();
  EXPECT_THAT(only(world.findings()), Is(What::kOrphanWait));
}

// As on an H100: the event is stuck for good, and a new one works.
TEST_F(CrossProcess, WithTheKnobNoRecordOfAnEventCompletesAfterALostOne) {
  world->set(Knob::kRecordsQueue, 1);
  PEER_OK(peer_.ask("gate s"));
  PEER_OK(peer_.ask("record event s"));
  peer_.kill();
  record();
  const cudaEvent_t other = new_event();
  const cudaStream_t later = new_stream();
  CUDA_OK(cudaEventRecord(other, later));
  CUDA_OK(cudaEventSynchronize(other));
  CUDA_OK(cudaEventDestroy(other));
  CUDA_OK(cudaStreamDestroy(later));
  EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
  EXPECT_THAT(only(world.findings()), Is(What::kLeak));  // freeing would wait for the stream
}

TEST_F(CrossProcess, AKilledProcessLeaksNothingButItsEndMustBeWaitedFor) {
  peer_reads();
  peer_.kill();
  clean_up();
  EXPECT_THAT(only(world.findings()), Is(What::kWriteAfterRead));
}

TEST_F(CrossProcess, ItsEndOrdersWhatItDid) {
  const auto pid = static_cast<std::uint32_t>(peer_.pid());
  peer_reads();
  peer_writes();
  PEER_OK(peer_.ask("drain s"));
  peer_.kill();
  fakecuda_observe_exit(pid);
  write(2);
  clean_up();
}

TEST_F(CrossProcess, ItsEndIsItsEndForAThirdProcess) {
  Peer third("");
  PEER_OK(third.ask("import data " + exported(data_)));
  PEER_OK(third.ask("stream s"));
  const auto pid = static_cast<std::uint32_t>(peer_.pid());
  peer_reads();
  PEER_OK(peer_.ask("drain s"));
  peer_.kill();
  fakecuda_observe_exit(pid);
  PEER_OK(third.ask("stream new"));
  PEER_OK(third.ask("fill data 262144 9 s"));
  PEER_OK(third.ask("sync s"));
  for (const char* command : {"close data", "destroy_stream s", "destroy_stream new"}) {
    PEER_OK(third.ask(command));
  }
  checker_acquire(third);
  clean_up();
}

TEST_F(CrossProcess, MemoryOutlivesItsKilledOwnerWhileItIsOpen) {
  PEER_OK(peer_.ask("malloc theirs 262144"));
  PEER_OK(peer_.ask("fill theirs 262144 7 0"));
  PEER_OK(peer_.ask("sync 0"));
  const std::string text = peer_.ask("export theirs").text;
  cudaIpcMemHandle_t handle = {};
  for (std::size_t i = 0; i < sizeof handle; ++i) {
    handle.reserved[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  void* theirs = nullptr;
  CUDA_OK(cudaIpcOpenMemHandle(&theirs, handle, cudaIpcMemLazyEnablePeerAccess));
  const auto pid = static_cast<std::uint32_t>(peer_.pid());
  peer_.kill();
  fakecuda_observe_exit(pid);
  EXPECT_EQ(first_of(static_cast<std::uint64_t*>(theirs)), 7U);
  std::size_t left = 0;
  std::size_t total = 0;
  CUDA_OK(cudaMemGetInfo(&left, &total));
  EXPECT_EQ(total - left, 2 * kGranularity);
  CUDA_OK(cudaIpcCloseMemHandle(theirs));
  CUDA_OK(cudaMemGetInfo(&left, &total));
  EXPECT_EQ(total - left, kGranularity) << "nobody has it any more";
  EXPECT_EQ(cudaIpcOpenMemHandle(&theirs, handle, cudaIpcMemLazyEnablePeerAccess),
            cudaErrorInvalidResourceHandle);
  clean_up();
}

}  // namespace
}  // namespace fakecuda::testing
