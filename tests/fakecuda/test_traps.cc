// What CUDA leaves undefined, or does as its driver likes: the stand-in does the worse by default
// or by a knob.
#include <chrono>
#include <csignal>

#include "tests/fakecuda/two_processes.h"

namespace fakecuda::testing {
namespace {

class Traps : public TwoProcesses {
 protected:
  Peer peer_{""};
};

TEST_F(Traps, TheUseOfADestroyedStreamEndsTheProcess) {
  PEER_OK(peer_.ask("stream s"));
  PEER_OK(peer_.ask("destroy_stream s"));
  peer_.say("sync s");
  EXPECT_EQ(peer_.wait_for_signal(), SIGSEGV);
  const Finding finding = only(world.findings());
  EXPECT_EQ(finding.what, What::kMisuse);
  EXPECT_THAT(finding.text, ::testing::HasSubstr("a stream was used"));
}

TEST_F(Traps, WithTheKnobItIsRefusedAndFoundAllTheSame) {
  world->set(Knob::kStaleStreamsRefused, 1);
  const cudaStream_t stream = new_stream();
  CUDA_OK(cudaStreamDestroy(stream));
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
  EXPECT_THAT(only(world.findings()), Is(What::kMisuse)) << "those that are alike are one";
}

// An event of ours that a peer has opened, recorded behind a kernel of its, and closed again.
class ClosedRecord : public Traps {
 protected:
  void SetUp() override {
    event_ = new_event(cudaEventInterprocess | cudaEventDisableTiming);
    PEER_OK(peer_.ask("stream s"));
    PEER_OK(peer_.ask("import_event event " + exported(event_)));
    for (const char* command : {"gate s", "record event s", "destroy_event event"}) {
      PEER_OK(peer_.ask(command));
    }
    EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
    PEER_OK(peer_.ask("open_gate"));
    PEER_OK(peer_.ask("sync s"));
    PEER_OK(peer_.ask("destroy_stream s"));
  }
  void TearDown() override { CUDA_OK(cudaEventDestroy(event_)); }

  cudaEvent_t event_ = nullptr;
};

TEST_F(ClosedRecord, Completes) { CUDA_OK(cudaEventQuery(event_)); }

class LostRecord : public ClosedRecord {
 protected:
  void SetUp() override {
    world->set(Knob::kCloseLosesRecord, 1);
    ClosedRecord::SetUp();
  }
};

TEST_F(LostRecord, NeverCompletes) { EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady); }

TEST_F(Traps, AnEventIsGoneForAllOnceItsExporterHasDestroyedIt) {
  const cudaEvent_t event = new_event(cudaEventInterprocess | cudaEventDisableTiming);
  PEER_OK(peer_.ask("import_event event " + exported(event)));
  CUDA_OK(cudaEventDestroy(event));
  EXPECT_EQ(error(peer_.ask("query_event event")), number(cudaErrorInvalidResourceHandle));
  PEER_OK(peer_.ask("destroy_event event"));
  EXPECT_THAT(only(world.findings()), Is(What::kMisuse));
}

TEST_F(Traps, WithTheKnobItGoesOnForThoseWhoOpenedIt) {
  world->set(Knob::kEventsOutlive, 1);
  const cudaEvent_t event = new_event(cudaEventInterprocess | cudaEventDisableTiming);
  PEER_OK(peer_.ask("import_event event " + exported(event)));
  CUDA_OK(cudaEventDestroy(event));
  PEER_OK(peer_.ask("record event 0"));
  PEER_OK(peer_.ask("sync 0"));
  PEER_OK(peer_.ask("query_event event"));
  PEER_OK(peer_.ask("destroy_event event"));
}

class OpensAndCloses : public Traps {
 protected:
  void SetUp() override {
    data_ = allocate();
    event_ = new_event(cudaEventInterprocess | cudaEventDisableTiming);
    PEER_OK(peer_.ask("stream s"));
  }
  void TearDown() override {
    PEER_OK(peer_.ask("destroy_stream s"));
    checker_acquire(peer_);
    CUDA_OK(cudaEventDestroy(event_));
    CUDA_OK(cudaFree(data_));
  }
  void expect_to_wait(const std::string& command) {
    PEER_OK(peer_.ask("pause s 200000"));
    const auto begun = std::chrono::steady_clock::now();
    PEER_OK(peer_.ask(command));
    EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(150)) << command;
  }

  std::uint64_t* data_ = nullptr;
  cudaEvent_t event_ = nullptr;
};

TEST_F(OpensAndCloses, ClosingMemoryWaitsForTheWorkOfTheProcess) {
  PEER_OK(peer_.ask("import data " + exported(data_)));
  expect_to_wait("close data");
}

TEST_F(OpensAndCloses, ThatOpeningWaitsForTheWorkOfTheProcessIsAKnob) {
  world->set(Knob::kOpensWait, 1);
  expect_to_wait("import data " + exported(data_));
  PEER_OK(peer_.ask("close data"));
  expect_to_wait("import_event event " + exported(event_));
  expect_to_wait("destroy_event event");
}

}  // namespace
}  // namespace fakecuda::testing
