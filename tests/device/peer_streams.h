// The streams of a client process under a test's command, by their names, and the commands that are
// about streams alone: kernels that keep one busy, gates, captures, counts of what was wrong.
#pragma once

#include <cuda_runtime_api.h>
#include <memlease/memlease.h>

#include <cstdint>
#include <future>
#include <map>
#include <optional>
#include <sstream>
#include <string>

#include "tests/support/fakecuda/test_kernels.h"

namespace memlease::testing {

inline void check_cuda(int error) {
  if (error == 0) return;
  throw Internal(cudaGetErrorName(static_cast<cudaError_t>(error)), "");
}

class PeerStreams {
 public:
  using Words = std::istringstream;

  PeerStreams() = default;
  ~PeerStreams() {
    streams_.erase("exported");  // the library's
    for (const auto& [name, stream] : streams_) (void)cudaStreamDestroy(stream);
    if (flag_ != nullptr) (void)cudaFreeHost(flag_);
    if (mismatches_ != nullptr) (void)cudaFree(mismatches_);
  }
  PeerStreams(const PeerStreams&) = delete;
  PeerStreams& operator=(const PeerStreams&) = delete;

  // Now, as memory that is made or freed may wait for all streams.
  void prepare() {
    make_mismatches();
    check_cuda(cudaHostAlloc(reinterpret_cast<void**>(&flag_), 4, cudaHostAllocMapped));
    check_cuda(cudaDeviceSynchronize());
  }
  // The answer; nothing if the command is not one of these.
  std::optional<std::string> run(const std::string& command, Words& words) {
    using Command = std::string (PeerStreams::*)(Words&);
    static const std::map<std::string, Command> kCommands = {
        {"mismatches", &PeerStreams::mismatches},
        {"set_device", &PeerStreams::set_device},
        {"current_device", &PeerStreams::current_device},
        {"work_on", &PeerStreams::work_on},
        {"spin", &PeerStreams::spin},
        {"gate", &PeerStreams::gate},
        {"ungate", &PeerStreams::ungate},
        {"synchronize", &PeerStreams::synchronize},
        {"idle", &PeerStreams::idle},
        {"capture", &PeerStreams::capture},
        {"end_capture", &PeerStreams::end_capture},
        {"stream_on", &PeerStreams::stream_on},
        {"blocking_stream", &PeerStreams::blocking_stream},
    };
    const auto known = kCommands.find(command);
    if (known == kCommands.end()) return std::nullopt;
    return (this->*known->second)(words);
  }

  static std::string word(Words& words) {
    std::string text;
    words >> text;
    return text;
  }
  static std::uint64_t number(Words& words) { return std::stoull(word(words)); }
  // The default streams go by their names, too.
  cudaStream_t raw_stream(Words& words) {
    const std::string name = word(words);
    if (name == "legacy") return cudaStreamLegacy;
    if (name == "per_thread") return cudaStreamPerThread;
    auto [it, is_new] = streams_.try_emplace(name, nullptr);
    if (is_new) check_cuda(cudaStreamCreateWithFlags(&it->second, cudaStreamNonBlocking));
    return it->second;
  }
  // "-": none.
  Stream stream(Words& words) {
    words >> std::ws;
    if (words.peek() == '-' || words.eof()) {
      word(words);
      return {};
    }
    return raw_stream(words);
  }
  void set_exported(Stream stream) {
    streams_["exported"] = reinterpret_cast<cudaStream_t>(stream.handle());
  }
  // Each stream counts for itself.
  std::uint64_t* mismatches_of(cudaStream_t stream) {
    return mismatches_ + numbers_.try_emplace(stream, numbers_.size()).first->second;
  }
  void open_gate() {
    if (flag_ != nullptr) __atomic_store_n(flag_, 1, __ATOMIC_SEQ_CST);
  }

 private:
  void make_mismatches() {
    check_cuda(cudaMalloc(reinterpret_cast<void**>(&mismatches_), kMostStreams * 8));
    check_cuda(cudaMemset(mismatches_, 0, kMostStreams * 8));
  }
  // STREAM -> how many elements were not what was expected in it, until now.
  std::string mismatches(Words& words) {
    std::uint64_t found = 0;
    cudaStream_t on = raw_stream(words);
    check_cuda(cudaMemcpyAsync(&found, mismatches_of(on), 8, cudaMemcpyDefault, on));
    check_cuda(cudaStreamSynchronize(on));
    return std::to_string(found);
  }
  // DEVICE: the thread's current one from now on.
  std::string set_device(Words& words) {
    check_cuda(cudaSetDevice(static_cast<int>(number(words))));
    return "";
  }
  // DEVICE: the current one, where all further streams are, and what is counted is counted.
  std::string work_on(Words& words) {
    check_cuda(cudaFree(mismatches_));
    set_device(words);
    make_mismatches();
    check_cuda(cudaDeviceSynchronize());
    return "";
  }
  std::string current_device(Words&) {
    int device = 0;
    check_cuda(cudaGetDevice(&device));
    return std::to_string(device);
  }
  // STREAM MS: keeps it busy.
  std::string spin(Words& words) {
    cudaStream_t on = raw_stream(words);
    check_cuda(tk_spin(number(words) * 1000, on));
    return "";
  }
  // STREAM: waits until "ungate".
  std::string gate(Words& words) {
    *flag_ = 0;
    check_cuda(tk_gate(flag_, raw_stream(words)));
    return "";
  }
  std::string ungate(Words&) {
    open_gate();
    return "";
  }
  std::string synchronize(Words& words) {
    check_cuda(cudaStreamSynchronize(raw_stream(words)));
    return "";
  }
  // STREAM -> 1 if it has nothing to do
  std::string idle(Words& words) {
    return cudaStreamQuery(raw_stream(words)) == cudaSuccess ? "1" : "0";
  }
  // NAME MODE THREAD: "own", or another one, which does nothing else.
  std::string capture(Words& words) {
    cudaStream_t const on = raw_stream(words);
    const auto mode = static_cast<cudaStreamCaptureMode>(number(words));
    if (word(words) == "own") {
      check_cuda(cudaStreamBeginCapture(on, mode));
      return "";
    }
    std::promise<cudaError_t> begun;
    end_ = {};
    capturer_ = std::async(std::launch::async, [&begun, on, mode, end = end_.get_future()] {
      const cudaError_t error = cudaStreamBeginCapture(on, mode);
      begun.set_value(error);
      end.wait();
      cudaGraph_t graph = nullptr;
      return error == cudaSuccess ? cudaStreamEndCapture(on, &graph) : error;
    });
    check_cuda(begun.get_future().get());
    return "";
  }
  // NAME -> CUDA's answer
  std::string end_capture(Words& words) {
    cudaStream_t const on = raw_stream(words);
    cudaGraph_t graph = nullptr;
    if (!capturer_.valid()) return std::to_string(cudaStreamEndCapture(on, &graph));
    end_.set_value();
    return std::to_string(capturer_.get());
  }
  // DEVICE NAME: a stream on another one than the current.
  std::string stream_on(Words& words) {
    const auto device = static_cast<int>(number(words));
    int before = 0;
    check_cuda(cudaGetDevice(&before));
    check_cuda(cudaSetDevice(device));
    raw_stream(words);
    check_cuda(cudaSetDevice(before));
    return "";
  }
  // NAME: a stream that takes part in the legacy stream's order.
  std::string blocking_stream(Words& words) {
    check_cuda(cudaStreamCreate(&streams_[word(words)]));
    return "";
  }

  static constexpr std::size_t kMostStreams = 16;
  std::map<std::string, cudaStream_t> streams_;
  std::map<cudaStream_t, std::size_t> numbers_;
  std::future<cudaError_t> capturer_;  // of another thread's capture
  std::promise<void> end_;             // without it that ends, too
  std::uint64_t* mismatches_ = nullptr;
  std::uint32_t* flag_ = nullptr;
};

}  // namespace memlease::testing
