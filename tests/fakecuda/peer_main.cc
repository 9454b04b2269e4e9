// A process that uses CUDA under a test's command (tests/support/peer.h). One command a line, one
// answer a line: "ok RESULT" or "error CODE". Memory, streams and events go by names; the stream
// "0" is the legacy one. Every word counts 8 bytes.
#include <cuda.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include "tests/fakecuda/hex.h"
#include "tests/support/fakecuda/fakecuda.h"
#include "tests/support/fakecuda/test_kernels.h"

namespace {

using fakecuda::testing::from_hex;
using fakecuda::testing::to_hex;
using Words = std::istringstream;

class Peer {
 public:
  // What the command gives beside its error.
  std::string result;

  int run(const std::string& line) {
    Words words(line);
    std::string name;
    words >> name;
    result.clear();
    const auto found = commands_.find(name);
    return found == commands_.end() ? -1 : found->second(words);
  }

  ~Peer() {
    if (flag_ != nullptr) cudaFreeHost(flag_);
  }

 private:
  static std::string word(Words& words) {
    std::string text;
    words >> text;
    return text;
  }
  static std::uint64_t number(Words& words) { return std::stoull(word(words)); }
  std::uint64_t* memory(Words& words) { return memory_[word(words)]; }
  cudaStream_t stream(Words& words) { return streams_[word(words)]; }
  cudaEvent_t event(Words& words) { return events_[word(words)]; }

  int allocate(Words& words) {
    void* address = nullptr;
    const std::string name = word(words);
    const int error = cudaMalloc(&address, number(words) * 8);
    memory_[name] = static_cast<std::uint64_t*>(address);
    result = std::to_string(reinterpret_cast<std::uintptr_t>(address));
    return error;
  }
  int export_memory(Words& words) {
    cudaIpcMemHandle_t handle = {};
    const int error = cudaIpcGetMemHandle(&handle, memory(words));
    result = to_hex(handle);
    return error;
  }
  int import_memory(Words& words) {
    const std::string name = word(words);
    void* address = nullptr;
    const int error = cudaIpcOpenMemHandle(&address, from_hex<cudaIpcMemHandle_t>(word(words)),
                                           cudaIpcMemLazyEnablePeerAccess);
    memory_[name] = static_cast<std::uint64_t*>(address);
    result = std::to_string(reinterpret_cast<std::uintptr_t>(address));
    return error;
  }
  int make_stream(Words& words) {
    return cudaStreamCreateWithFlags(&streams_[word(words)], cudaStreamNonBlocking);
  }
  int make_event(Words& words) {
    return cudaEventCreateWithFlags(&events_[word(words)],
                                    cudaEventInterprocess | cudaEventDisableTiming);
  }
  int export_event(Words& words) {
    cudaIpcEventHandle_t handle = {};
    const int error = cudaIpcGetEventHandle(&handle, event(words));
    result = to_hex(handle);
    return error;
  }
  int import_event(Words& words) {
    const std::string name = word(words);
    return cudaIpcOpenEventHandle(&events_[name], from_hex<cudaIpcEventHandle_t>(word(words)));
  }
  int fill(Words& words) {
    std::uint64_t* data = memory(words);
    const std::uint64_t count = number(words);
    const std::uint64_t value = number(words);
    return tk_fill(data, count, value, stream(words));
  }
  // How many differ, without a wait by the host before: the check itself reads on the stream.
  int check(Words& words) {
    std::uint64_t* data = memory(words);
    const std::uint64_t count = number(words);
    const std::uint64_t expected = number(words);
    const cudaStream_t on = stream(words);
    void* mismatches = nullptr;
    int error = cudaHostAlloc(&mismatches, 8, cudaHostAllocMapped);
    if (error != 0) return error;
    auto* count_of = static_cast<std::uint64_t*>(mismatches);
    *count_of = 0;
    error = tk_check(data, count, expected, count_of, on);
    if (error == 0) error = cudaStreamSynchronize(on);
    result = std::to_string(*count_of);
    cudaFreeHost(mismatches);
    return error;
  }
  int gate(Words& words) {
    if (flag_ == nullptr) {
      void* flag = nullptr;
      if (const int error = cudaHostAlloc(&flag, 4, cudaHostAllocMapped); error != 0) return error;
      flag_ = static_cast<std::uint32_t*>(flag);
      *flag_ = 0;
    }
    return tk_gate(flag_, stream(words));
  }
  int open_gate(Words&) {
    __atomic_store_n(flag_, 1, __ATOMIC_SEQ_CST);
    return 0;
  }
  int record(Words& words) {
    const cudaEvent_t which = event(words);
    return cudaEventRecord(which, stream(words));
  }
  static CUdeviceptr word_at(std::uint64_t* address) {
    return reinterpret_cast<CUdeviceptr>(address);
  }
  int write_word(Words& words) {
    std::uint64_t* address = memory(words);
    const std::uint64_t value = number(words);
    return cuStreamWriteValue64(stream(words), word_at(address), value, 0);
  }
  int wait_word(Words& words) {
    std::uint64_t* address = memory(words);
    const std::uint64_t value = number(words);
    return cuStreamWaitValue64(stream(words), word_at(address), value, CU_STREAM_WAIT_VALUE_GEQ);
  }
  int checker_release(Words& words) {
    fakecuda_release(number(words), 0);
    return 0;
  }
  int checker_acquire(Words& words) {
    fakecuda_acquire(number(words), 0);
    return 0;
  }
  int wait(Words& words) {
    const cudaStream_t on = stream(words);
    return cudaStreamWaitEvent(on, event(words), 0);
  }
  int pause(Words& words) {
    const cudaStream_t on = stream(words);
    return fakecuda_pause(on, number(words));
  }
  // Makes, uses and gives back one thing after the other until it is killed.
  int churn(Words&) {
    for (;;) {
      void* data = nullptr;
      cudaStream_t on = nullptr;
      cudaEvent_t event = nullptr;
      int error = cudaMalloc(&data, 2 << 20);
      if (error == 0) error = cudaStreamCreateWithFlags(&on, cudaStreamNonBlocking);
      if (error == 0) error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
      if (error == 0) error = tk_fill(static_cast<std::uint64_t*>(data), 16, 1, on);
      if (error == 0) error = cudaEventRecord(event, on);
      if (error == 0) error = cudaEventDestroy(event);
      if (error == 0) error = cudaStreamDestroy(on);
      if (error == 0) error = cudaFree(data);
      if (error != 0) return error;
    }
  }
  // What CUDA answers in a forked child.
  int call_in_fork(Words&) {
    int ends[2];
    if (pipe(ends) != 0) return -1;
    if (fork() == 0) {
      int count = 0;
      const int error = cudaGetDeviceCount(&count);
      _exit(write(ends[1], &error, sizeof error) < 0 ? 1 : 0);
    }
    int error = -1;
    if (read(ends[0], &error, sizeof error) < 0) return -1;
    close(ends[0]);
    close(ends[1]);
    return error;
  }

  std::map<std::string, std::uint64_t*> memory_;
  std::map<std::string, cudaStream_t> streams_ = {{"0", nullptr}};
  std::map<std::string, cudaEvent_t> events_;
  std::uint32_t* flag_ = nullptr;

  const std::map<std::string, std::function<int(Words&)>> commands_ = {
      {"malloc", [this](Words& words) { return allocate(words); }},
      {"free", [this](Words& words) { return cudaFree(memory(words)); }},
      {"export", [this](Words& words) { return export_memory(words); }},
      {"import", [this](Words& words) { return import_memory(words); }},
      {"close", [this](Words& words) { return cudaIpcCloseMemHandle(memory(words)); }},
      {"stream", [this](Words& words) { return make_stream(words); }},
      {"destroy_stream", [this](Words& words) { return cudaStreamDestroy(stream(words)); }},
      {"event", [this](Words& words) { return make_event(words); }},
      {"destroy_event", [this](Words& words) { return cudaEventDestroy(event(words)); }},
      {"export_event", [this](Words& words) { return export_event(words); }},
      {"import_event", [this](Words& words) { return import_event(words); }},
      {"fill", [this](Words& words) { return fill(words); }},
      {"check", [this](Words& words) { return check(words); }},
      {"gate", [this](Words& words) { return gate(words); }},
      {"open_gate", [this](Words& words) { return open_gate(words); }},
      {"record", [this](Words& words) { return record(words); }},
      {"wait", [this](Words& words) { return wait(words); }},
      {"query_event", [this](Words& words) { return cudaEventQuery(event(words)); }},
      {"sync", [this](Words& words) { return cudaStreamSynchronize(stream(words)); }},
      {"drain", [this](Words& words) { return fakecuda_drain(stream(words)); }},
      {"write_word", [this](Words& words) { return write_word(words); }},
      {"wait_word", [this](Words& words) { return wait_word(words); }},
      {"checker_release", [this](Words& words) { return checker_release(words); }},
      {"checker_acquire", [this](Words& words) { return checker_acquire(words); }},
      {"pause", [this](Words& words) { return pause(words); }},
      {"device", [](Words& words) { return cudaSetDevice(static_cast<int>(number(words))); }},
      {"last_error", [](Words&) { return cudaGetLastError(); }},
      {"churn", [this](Words& words) { return churn(words); }},
      {"call_in_fork", [this](Words& words) { return call_in_fork(words); }},
  };
};

}  // namespace

// At its exit LeakSanitizer stops all threads with ptrace(2), and that hangs now and then in a
// process that others watch and kill. The tests' own processes are checked for leaks.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options();
const char* __asan_default_options() { return "detect_leaks=0"; }

// Called by exit(), after the library has ended its work there.
void call_after_the_end();
void call_after_the_end() {
  int count = 0;
  std::printf("error %d\n", cudaGetDeviceCount(&count));
  std::fflush(stdout);
}

int main() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that crashes leaves nobody behind
  Peer peer;
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "end") break;
    // Registered before the library's own, so it runs after it.
    if (line == "call_after_end") {
      std::atexit(call_after_the_end);
      std::puts("ok");
      std::fflush(stdout);
      continue;
    }
    const int error = peer.run(line);
    if (error == 0) {
      std::printf("ok %s\n", peer.result.c_str());
    } else {
      std::printf("error %d\n", error);
    }
    std::fflush(stdout);
  }
  return 0;
}
