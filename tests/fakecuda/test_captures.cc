// Captures of graphs: which calls lose one, by the mode of the capture and of the calling thread.
#include <thread>

#include "tests/fakecuda/fixture.h"

namespace fakecuda::testing {
namespace {

constexpr auto kGlobal = cudaStreamCaptureModeGlobal;
constexpr auto kThreadLocal = cudaStreamCaptureModeThreadLocal;
constexpr auto kRelaxed = cudaStreamCaptureModeRelaxed;
constexpr auto kNone = cudaStreamCaptureStatusNone;
constexpr auto kActive = cudaStreamCaptureStatusActive;
constexpr auto kInvalidated = cudaStreamCaptureStatusInvalidated;

class Captures : public Fakecuda {
 protected:
  static void set_mode(cudaStreamCaptureMode mode) {
    EXPECT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  }
  static cudaError_t end(cudaStream_t stream) {
    cudaGraph_t graph = nullptr;
    return cudaStreamEndCapture(stream, &graph);
  }
  static cudaStreamCaptureStatus status(cudaStream_t stream) {
    cudaStreamCaptureStatus now = kNone;
    EXPECT_EQ(cudaStreamIsCapturing(stream, &now), cudaSuccess);
    return now;
  }
  // What a call of this thread says, or one of another thread in that mode, while this thread
  // captures in the other mode; and whether the capture is lost by it.
  struct Outcome {
    cudaError_t said;
    bool lost;
    bool operator==(const Outcome&) const = default;
    friend void PrintTo(const Outcome& it, std::ostream* out) {
      *out << it.said << (it.lost ? ", lost" : "");
    }
  };
  template <class Work>
  Outcome here(cudaStreamCaptureMode mode, cudaStreamCaptureMode capture, const Work& work) {
    const cudaStream_t stream = new_stream();
    EXPECT_EQ(cudaStreamBeginCapture(stream, capture), cudaSuccess);
    set_mode(mode);
    const cudaError_t said = work();
    set_mode(kGlobal);
    return outcome(stream, said);
  }
  template <class Work>
  Outcome elsewhere(cudaStreamCaptureMode mode, cudaStreamCaptureMode capture, const Work& work,
                    unsigned flags = cudaStreamNonBlocking) {
    const cudaStream_t stream = new_stream(flags);
    EXPECT_EQ(cudaStreamBeginCapture(stream, capture), cudaSuccess);
    cudaError_t said = cudaSuccess;
    std::thread([&] {
      set_mode(mode);
      said = work();
    }).join();
    return outcome(stream, said);
  }
  static Outcome outcome(cudaStream_t stream, cudaError_t said) {
    const bool lost = status(stream) == kInvalidated;
    EXPECT_EQ(end(stream), lost ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    return {said, lost};
  }

  const Outcome fine_{cudaSuccess, false};
  const Outcome refused_{cudaErrorStreamCaptureUnsupported, true};
};

TEST_F(Captures, ACapturingStreamTakesNoWork) {
  const cudaStream_t stream = new_stream(cudaStreamDefault);
  CUDA_OK(cudaStreamBeginCapture(stream, kRelaxed));
  EXPECT_EQ(status(stream), kActive);
  EXPECT_EQ(tk_spin(1, stream), static_cast<int>(cudaErrorStreamCaptureUnsupported));
  EXPECT_EQ(cudaStreamBeginCapture(stream, kRelaxed), cudaErrorIllegalState);
  CUDA_OK(end(stream));
  EXPECT_EQ(status(stream), kNone);
  EXPECT_EQ(end(stream), cudaErrorIllegalState);
  EXPECT_EQ(tk_spin(1, stream), 0);
  CUDA_OK(cudaStreamDestroy(stream));
}

TEST_F(Captures, TheLegacyStreamIsNotCaptured) {
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, kRelaxed), cudaErrorStreamCaptureUnsupported);
}

TEST_F(Captures, PotentiallyUnsafeCallsAreForbiddenByTheModesOfThreadAndCapture) {
  const cudaEvent_t event = new_event();
  const auto query = [&] { return cudaEventQuery(event); };
  for (const auto capture : {kGlobal, kThreadLocal, kRelaxed}) {
    SCOPED_TRACE(capture);
    const bool any_mode_is_fine = capture == kRelaxed;
    EXPECT_EQ(here(kGlobal, capture, query), any_mode_is_fine ? fine_ : refused_);
    EXPECT_EQ(here(kThreadLocal, capture, query), any_mode_is_fine ? fine_ : refused_);
    EXPECT_EQ(here(kRelaxed, capture, query), fine_);
    EXPECT_EQ(elsewhere(kGlobal, capture, query), capture == kGlobal ? refused_ : fine_);
    EXPECT_EQ(elsewhere(kThreadLocal, capture, query), fine_);
    EXPECT_EQ(elsewhere(kRelaxed, capture, query), fine_);
  }
  CUDA_OK(cudaEventDestroy(event));
}

TEST_F(Captures, MemoryAndStreamsAreMadeByPotentiallyUnsafeCalls) {
  std::uint64_t* const data = allocate();
  cudaIpcMemHandle_t handle = {};
  std::uint64_t pageable = 0;
  const cudaStream_t other = new_stream();
  EXPECT_EQ(elsewhere(kGlobal, kGlobal, [&] { return cudaFree(data); }), refused_);
  EXPECT_EQ(elsewhere(kGlobal, kGlobal, [&] { return cudaIpcGetMemHandle(&handle, data); }),
            refused_);
  EXPECT_EQ(elsewhere(kGlobal, kGlobal, [&] { return cudaStreamSynchronize(other); }), refused_);
  const auto copy = [&] {
    return cudaMemcpyAsync(&pageable, data, 8, cudaMemcpyDeviceToHost, other);
  };
  EXPECT_EQ(elsewhere(kGlobal, kGlobal, copy), refused_) << "it would be staged";
  EXPECT_EQ(elsewhere(kRelaxed, kGlobal, copy), fine_);
  EXPECT_EQ(elsewhere(kRelaxed, kGlobal, [&] { return cudaFree(data); }), fine_);
  CUDA_OK(cudaStreamDestroy(other));
}

TEST_F(Captures, WorkOnOtherStreamsIsNoneOfTheCapturesBusiness) {
  const cudaEvent_t event = new_event();
  const cudaStream_t other = new_stream();
  const auto work = [&] {
    if (const cudaError_t error = cudaEventRecord(event, other); error != 0) return error;
    return cudaStreamWaitEvent(other, event, 0);
  };
  EXPECT_EQ(here(kGlobal, kGlobal, work), fine_);
  EXPECT_EQ(elsewhere(kGlobal, kGlobal, work), fine_);
  CUDA_OK(cudaStreamDestroy(other));
  CUDA_OK(cudaEventDestroy(event));
}

TEST_F(Captures, WhatConflictsWithACaptureLosesItInEveryMode) {
  for (const auto capture : {kGlobal, kThreadLocal, kRelaxed}) {
    EXPECT_EQ(elsewhere(kRelaxed, capture, cudaDeviceSynchronize), refused_);
    const cudaStream_t stream = new_stream();
    CUDA_OK(cudaStreamBeginCapture(stream, capture));
    set_mode(kRelaxed);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
    set_mode(kGlobal);
    EXPECT_EQ(status(stream), kInvalidated);
    EXPECT_EQ(end(stream), cudaErrorStreamCaptureInvalidated);
    CUDA_OK(cudaStreamDestroy(stream));
  }
}

TEST_F(Captures, AnotherDeviceMayBeWaitedFor) {
  const auto wait = [] {
    const cudaError_t error = cudaSetDevice(1);
    return error == cudaSuccess ? cudaDeviceSynchronize() : error;
  };
  EXPECT_EQ(elsewhere(kRelaxed, kGlobal, wait), fine_);
}

TEST_F(Captures, TheLegacyStreamWouldTakePartInThatOfABlockingOne) {
  const Outcome implicit{cudaErrorStreamCaptureImplicit, true};
  const auto enqueue = [] { return static_cast<cudaError_t>(tk_spin(1, nullptr)); };
  const auto wait = [] { return cudaStreamSynchronize(nullptr); };
  for (const auto capture : {kGlobal, kThreadLocal, kRelaxed}) {
    EXPECT_EQ(elsewhere(kRelaxed, capture, enqueue, cudaStreamDefault), implicit);
    EXPECT_EQ(elsewhere(kRelaxed, capture, wait, cudaStreamDefault), implicit);
    EXPECT_EQ(elsewhere(kRelaxed, capture, enqueue), fine_);
  }
}

// The one question that may be asked of it.
TEST_F(Captures, AskingWhetherTheLegacyStreamIsCapturedDoesNoHarm) {
  const auto ask = [] {
    cudaStreamCaptureStatus now = kNone;
    return cudaStreamIsCapturing(nullptr, &now);
  };
  EXPECT_EQ(elsewhere(kGlobal, kGlobal, ask, cudaStreamDefault),
            (Outcome{cudaErrorStreamCaptureImplicit, false}));
  EXPECT_EQ(elsewhere(kGlobal, kGlobal, ask), fine_);
}

TEST_F(Captures, ACaptureEndsOnItsOwnThreadUnlessItIsRelaxed) {
  for (const auto capture : {kGlobal, kThreadLocal, kRelaxed}) {
    const cudaStream_t stream = new_stream();
    CUDA_OK(cudaStreamBeginCapture(stream, capture));
    cudaError_t said = cudaSuccess;
    std::thread([&] { said = end(stream); }).join();
    EXPECT_EQ(said, capture == kRelaxed ? cudaSuccess : cudaErrorStreamCaptureWrongThread);
    if (capture != kRelaxed) {
      CUDA_OK(end(stream));
    }
    CUDA_OK(cudaStreamDestroy(stream));
  }
}

// For tests of who exchanges it.
TEST_F(Captures, WithTheKnobThreadsKeepTheirMode) {
  world->set(Knob::kExchangeIgnored, 1);
  const cudaEvent_t event = new_event();
  EXPECT_EQ(elsewhere(kRelaxed, kGlobal, [&] { return cudaEventQuery(event); }), refused_);
  CUDA_OK(cudaEventDestroy(event));
}

TEST_F(Captures, AStreamThatIsDestroyedNoLongerCaptures) {
  const cudaStream_t stream = new_stream();
  CUDA_OK(cudaStreamBeginCapture(stream, kGlobal));
  CUDA_OK(cudaStreamDestroy(stream));
  CUDA_OK(cudaDeviceSynchronize());
}

}  // namespace
}  // namespace fakecuda::testing
