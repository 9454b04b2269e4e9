#include "tests/support/fakecuda/fakecuda.h"

#include <cstddef>
#include <cstring>
#include <vector>

#include "tests/support/fakecuda/call.h"
#include "tests/support/fakecuda/runtime.h"
#include "tests/support/fakecuda/stream.h"
#include "tests/support/fakecuda/word.h"

namespace fakecuda {
namespace {

class Launch : public Operation {
 public:
  Launch(const char* name, fakecuda_kernel kernel, std::vector<fakecuda_range> ranges,
         std::vector<std::max_align_t> arguments)
      : Operation(name),
        kernel_(kernel),
        ranges_(std::move(ranges)),
        arguments_(std::move(arguments)) {}

  void run(Stream& stream) override {
    std::vector<void*> addresses;
    std::vector<MappingPtr> keep(ranges_.size());
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const fakecuda_range& range = ranges_[i];
      addresses.push_back(range.bytes == 0
                              ? nullptr
                              : stream.access(range.address, range.bytes,
                                              static_cast<Access>(range.access), keep[i]));
    }
    kernel_(addresses.data(), arguments_.data());
  }

 private:
  const fakecuda_kernel kernel_;
  const std::vector<fakecuda_range> ranges_;
  const std::vector<std::max_align_t> arguments_;
};

class Pause : public Operation {
 public:
  explicit Pause(u64 us) : Operation("pause"), us_(us) {}
  void run(Stream& stream) override { stream.pause_us(us_); }

 private:
  const u64 us_;
};

template <class Work>
cudaError_t on_found_stream(Runtime& runtime, cudaStream_t handle, const Work& work) {
  std::shared_ptr<Stream> stream;
  const cudaError_t error = runtime.find(handle, false, stream);
  return error == cudaSuccess ? work(*stream) : error;
}

// A kernel goes to a stream of the current device.
cudaError_t launch(Runtime& runtime, cudaStream_t handle, std::unique_ptr<Operation> operation) {
  return on_found_stream(runtime, handle, [&](Stream& stream) {
    Context* context = nullptr;
    const cudaError_t error = runtime.current(context);
    if (error != cudaSuccess) return error;
    if (context != &stream.context) return cudaErrorInvalidResourceHandle;
    return stream.enqueue(std::move(operation));
  });
}

}  // namespace
}  // namespace fakecuda

using fakecuda::Runtime;

int fakecuda_abi(void) { return static_cast<int>(fakecuda::kLayoutVersion); }

cudaError_t fakecuda_launch(cudaStream_t stream, const char* name, fakecuda_kernel kernel,
                            const fakecuda_range* ranges, size_t range_count, const void* arguments,
                            size_t argument_bytes) {
  std::vector<std::max_align_t> copied(argument_bytes / sizeof(std::max_align_t) + 1);
  if (argument_bytes != 0) std::memcpy(copied.data(), arguments, argument_bytes);
  auto operation = std::make_unique<fakecuda::Launch>(
      name, kernel, std::vector<fakecuda_range>(ranges, ranges + range_count), std::move(copied));
  // Counted and failed as what nvcc's code calls.
  static const fakecuda::Call call("cudaLaunchKernel");
  return fakecuda::run_call(call, fakecuda::Api::kRuntime, [&](Runtime& runtime) {
    return fakecuda::launch(runtime, stream, std::move(operation));
  });
}

int fakecuda_cancelled(void) {
  const fakecuda::Stream* stream = fakecuda::Stream::of_this_thread();
  return stream != nullptr && stream->cancelled() ? 1 : 0;
}

void* fakecuda_touch(const void* address, size_t bytes, int access) {
  Runtime* runtime = Runtime::running();
  if (runtime == nullptr) return nullptr;
  const auto how = static_cast<fakecuda::Access>(access);
  const auto mapping = runtime->memory.find(address);
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (mapping == nullptr || at + bytes > mapping->base + mapping->bytes) return nullptr;
  const fakecuda::u64 offset = mapping->offset + (at - mapping->base);
  runtime->trace(fakecuda::Kind::kTouch, 0, runtime->name("a touch by the host"));
  if (reads(how)) runtime->trace(fakecuda::Kind::kAccess, mapping->allocation, offset, bytes);
  if (writes(how)) {
    runtime->trace(fakecuda::Kind::kAccess, mapping->allocation, offset | fakecuda::kWriteBit,
                   bytes);
  }
  return mapping->alias(writes(how)) + (at - mapping->base);
}

cudaError_t fakecuda_pause(cudaStream_t stream, uint64_t us) {
  Runtime* runtime = nullptr;
  const cudaError_t error = Runtime::get(runtime);
  if (error != cudaSuccess) return error;
  return fakecuda::on_found_stream(*runtime, stream, [&](fakecuda::Stream& it) {
    return it.enqueue(std::make_unique<fakecuda::Pause>(us));
  });
}

cudaError_t fakecuda_drain(cudaStream_t stream) {
  Runtime* runtime = nullptr;
  const cudaError_t error = Runtime::get(runtime);
  if (error != cudaSuccess) return error;
  return fakecuda::on_found_stream(*runtime, stream, [](fakecuda::Stream& it) {
    it.drain();
    return cudaSuccess;
  });
}

void fakecuda_release(uint64_t key, uint64_t value) {
  if (Runtime* runtime = Runtime::running(); runtime != nullptr) {
    runtime->trace(fakecuda::Kind::kRelease, static_cast<fakecuda::u64>(fakecuda::KeyKind::kHost),
                   key, value);
  }
}

void fakecuda_acquire(uint64_t key, uint64_t value) {
  if (Runtime* runtime = Runtime::running(); runtime != nullptr) {
    runtime->trace(fakecuda::Kind::kAcquire, static_cast<fakecuda::u64>(fakecuda::KeyKind::kHost),
                   key, value);
  }
}

void fakecuda_saw(const void* word) {
  if (Runtime* runtime = Runtime::running(); runtime != nullptr) fakecuda::saw_word(*runtime, word);
}

void fakecuda_observe_exit(uint32_t pid) {
  Runtime* runtime = Runtime::running();
  if (runtime == nullptr) return;
  const auto& processes = runtime->world().layout().processes;
  for (fakecuda::u32 i = 0; i < processes.size(); ++i) {
    if (processes[i].state == fakecuda::Process::kFree) break;
    if (processes[i].pid == pid) runtime->trace(fakecuda::Kind::kExit, i);
  }
}

uint64_t fakecuda_calls(const char* function) {
  Runtime* runtime = Runtime::running();
  if (runtime == nullptr) return 0;
  return runtime->process().calls[runtime->world().call_index(function)];
}

void fakecuda_keep_stream(void) {
  if (Runtime* runtime = Runtime::running(); runtime != nullptr) --runtime->process().streams;
}

void fakecuda_detach(void) { Runtime::detach(); }
