// What every exported function does before and after its work: count the call, fail it if the test
// wants that, say what broke the context before, remember the last error. Used by the API files.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <string>

#include "tests/support/fakecuda/queries.h"
#include "tests/support/fakecuda/runtime.h"

namespace fakecuda {

// One exported function; lives as long as the process.
class Call {
 public:
  // A variant (_v2, _ptsz, _ptds) counts as the function that it is one of.
  explicit Call(const char* function);

  const std::string& name() const { return name_; }
  bool unsafe() const { return unsafe_; }
  u32 index(Runtime& runtime) const;

 private:
  std::string name_;
  bool unsafe_;                          // during a capture
  mutable std::atomic<u64> cached_ = 0;  // epoch of the runtime << 32 | index
};

enum class Api { kRuntime, kDriver };

cudaError_t begin(const Call& call, Api api, Runtime*& runtime, cudaError_t& poison);
cudaError_t end(Api api, Runtime* runtime, cudaError_t poison, cudaError_t error);

// The driver's addresses are numbers.
inline void* at(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

// The driver's: 201 if the thread has none.
cudaError_t driver_context(Context*& context);

// The work gets the runtime; what it returns is the call's answer.
template <class Work>
cudaError_t run_call(const Call& call, Api api, const Work& work) {
  Runtime* runtime = nullptr;
  cudaError_t poison = cudaSuccess;
  cudaError_t error = begin(call, api, runtime, poison);
  if (error == cudaSuccess) error = work(*runtime);
  return end(api, runtime, poison, error);
}

// ... and the current context. The runtime API makes one, the driver's answers 201.
template <class Work>
cudaError_t run_call_in_context(const Call& call, Api api, const Work& work) {
  return run_call(call, api, [&](Runtime& runtime) {
    Context* context = nullptr;
    const cudaError_t error =
        api == Api::kRuntime ? runtime.current(context) : driver_context(context);
    return error == cudaSuccess ? work(*context) : error;
  });
}

// With the primary context of a device, which this does not make.
template <class Work>
cudaError_t with_device(Runtime& runtime, int ordinal, const Work& work) {
  unsigned device = 0;
  const cudaError_t error = device_at(runtime, ordinal, device);
  return error == cudaSuccess ? work(runtime.primary(ordinal)) : error;
}

// Answers by an output argument, which there must be.
template <class T, class V>
cudaError_t put(T* out, V value) {
  if (out == nullptr) return cudaErrorInvalidValue;
  *out = static_cast<T>(value);
  return cudaSuccess;
}

// cuInit was called, or something that does it.
void initialize_driver(Runtime& runtime);

}  // namespace fakecuda

// The body of an exported function: the expression may use `runtime`, or `context`.
#define FAKECUDA_BODY(run, parameter, api, expression) \
  static const fakecuda::Call call(__func__);          \
  return run(call, fakecuda::Api::api,                 \
             [&]([[maybe_unused]] parameter) -> cudaError_t { return expression; })
// No context is made by this one. Of the runtime's calls only few make none.
#define FAKECUDA_RUNTIME(expression) \
  FAKECUDA_BODY(fakecuda::run_call, fakecuda::Runtime& runtime, kRuntime, (expression))
#define FAKECUDA_RUNTIME_CONTEXT(expression)                                          \
  static const fakecuda::Call call(__func__);                                         \
  return fakecuda::run_call_in_context(                                               \
      call, fakecuda::Api::kRuntime, [&](fakecuda::Context& context) -> cudaError_t { \
        [[maybe_unused]] fakecuda::Runtime& runtime = context.runtime;                \
        return (expression);                                                          \
      })
// The driver's errors have the runtime's numbers.
#define FAKECUDA_DRIVER_BODY(run, parameter, expression) \
  static const fakecuda::Call call(__func__);            \
  return static_cast<CUresult>(                          \
      run(call, fakecuda::Api::kDriver,                  \
          [&]([[maybe_unused]] parameter) -> cudaError_t { return expression; }))
#define FAKECUDA_DRIVER(expression) \
  FAKECUDA_DRIVER_BODY(fakecuda::run_call, fakecuda::Runtime& runtime, (expression))
#define FAKECUDA_DRIVER_CONTEXT(expression) \
  FAKECUDA_DRIVER_BODY(fakecuda::run_call_in_context, fakecuda::Context& context, (expression))
