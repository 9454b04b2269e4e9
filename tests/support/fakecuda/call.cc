#include "tests/support/fakecuda/call.h"

namespace fakecuda {
namespace {

// The driver that memlease was built against; an older one is refused by the runtime.
constexpr u32 kRuntimeVersion = CUDART_VERSION / 1000 * 1000;

std::atomic<u64> initialized_epoch = 0;

std::string without_variant(std::string name) {
  for (const char* suffix : {"_ptsz", "_ptds", "_v2", "_v3", "_v4"}) {
    const std::size_t at = name.rfind(suffix);
    if (at != std::string::npos && at + std::char_traits<char>::length(suffix) == name.size()) {
      name.resize(at);
    }
  }
  return name;
}

// The error that the test wants this call to have, if any.
cudaError_t planned_fault(Runtime& runtime, const Call& call, cudaError_t& poison) {
  Layout& layout = runtime.world().layout();
  if (layout.faults_in_use == 0) return cudaSuccess;
  const u32 index = call.index(runtime);
  for (Fault& fault : layout.faults) {
    if (fault.state != Fault::kLive || fault.call != index) continue;
    if (fault.pid != 0 && fault.pid != runtime.process().pid) continue;
    if (fault.skip.load() > 0 && fault.skip.fetch_sub(1) > 0) continue;
    if (fault.times == 0 || (fault.times > 0 && fault.times.fetch_sub(1) <= 0)) continue;
    const auto error = static_cast<cudaError_t>(fault.error.load());
    if (fault.mode == Fault::kRefuse) return error;
    poison = error;
  }
  return cudaSuccess;
}

// What broke the context that is current, if one is.
cudaError_t broken() {
  const ThreadState& thread = this_thread();
  Context* context = thread.current.empty() ? nullptr : thread.current.back();
  return context == nullptr ? cudaSuccess : context->broken();
}

// To another device, or context.
bool leads_away(const Call& call) {
  return call.name() == "cudaSetDevice" || call.name().starts_with("cuCtx") ||
         call.name().starts_with("cuDevicePrimaryCtx");
}

bool is_remembered(const Runtime* runtime, cudaError_t error) {
  return error != cudaErrorNotReady || runtime->knob(Knob::kNotReadyStays) != 0;
}

}  // namespace

Call::Call(const char* function)
    : name_(without_variant(function)), unsafe_(potentially_unsafe(name_)) {}

u32 Call::index(Runtime& runtime) const {
  const u64 cached = cached_.load(std::memory_order_relaxed);
  if (cached >> 32 == runtime.epoch()) return static_cast<u32>(cached);
  const u32 index = runtime.world().call_index(name_);
  cached_.store(runtime.epoch() << 32 | index, std::memory_order_relaxed);
  return index;
}

cudaError_t begin(const Call& call, Api api, Runtime*& runtime, cudaError_t& poison) {
  if (const cudaError_t error = Runtime::get(runtime); error != cudaSuccess) {
    // The driver does not know the runtime's 35.
    return api == Api::kDriver && error == cudaErrorInsufficientDriver ? cudaErrorNoDevice : error;
  }
  ++runtime->process().calls[call.index(*runtime)];
  if (this_thread().in_host_function) return cudaErrorNotPermitted;
  if (api == Api::kRuntime) {
    if (runtime->knob(Knob::kDriverVersion) < kRuntimeVersion) return cudaErrorInsufficientDriver;
    initialize_driver(*runtime);
  } else if (initialized_epoch != runtime->epoch() && call.name() != "cuInit") {
    return cudaErrorInitializationError;
  }
  if (const cudaError_t error = planned_fault(*runtime, call, poison); error != cudaSuccess) {
    return error;
  }
  if (call.unsafe()) {
    const cudaError_t error = runtime->captures.refuse_unsafe();
    if (error != cudaSuccess) return error;
  }
  // The way to another device stays open.
  return leads_away(call) ? cudaSuccess : broken();
}

cudaError_t end(Api api, Runtime* runtime, cudaError_t poison, cudaError_t error) {
  if (poison != cudaSuccess && error == cudaSuccess) {
    Context* context = nullptr;
    if (runtime->current(context) == cudaSuccess) context->break_with(poison);
  }
  if (api == Api::kRuntime && error != cudaSuccess && is_remembered(runtime, error)) {
    this_thread().last_error = error;
  }
  return error;
}

cudaError_t driver_context(Context*& context) {
  const ThreadState& thread = this_thread();
  context = thread.current.empty() ? nullptr : thread.current.back();
  if (context == nullptr) return cudaErrorDeviceUninitialized;
  return context->exists() ? cudaSuccess : cudaErrorContextIsDestroyed;
}

void initialize_driver(Runtime& runtime) { initialized_epoch = runtime.epoch(); }

}  // namespace fakecuda
