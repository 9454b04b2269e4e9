#include "tests/support/fakecuda/entry_points.h"

#include <cuda.h>

#include "tests/support/fakecuda/call.h"

namespace fakecuda {
namespace {

struct Entry {
  std::string_view name;
  void* function;
};

// The names stand as they are written; CUDA's headers make the functions the newest variants.
const Entry kFunctions[] = {
    {"cuInit", reinterpret_cast<void*>(&cuInit)},
    {"cuDriverGetVersion", reinterpret_cast<void*>(&cuDriverGetVersion)},
    {"cuGetErrorName", reinterpret_cast<void*>(&cuGetErrorName)},
    {"cuGetErrorString", reinterpret_cast<void*>(&cuGetErrorString)},
    {"cuGetProcAddress", reinterpret_cast<void*>(&cuGetProcAddress)},
    {"cuDeviceGetCount", reinterpret_cast<void*>(&cuDeviceGetCount)},
    {"cuDeviceGet", reinterpret_cast<void*>(&cuDeviceGet)},
    {"cuDeviceGetName", reinterpret_cast<void*>(&cuDeviceGetName)},
    {"cuDeviceGetUuid", reinterpret_cast<void*>(&cuDeviceGetUuid)},
    {"cuDeviceGetAttribute", reinterpret_cast<void*>(&cuDeviceGetAttribute)},
    {"cuDeviceGetPCIBusId", reinterpret_cast<void*>(&cuDeviceGetPCIBusId)},
    {"cuDeviceTotalMem", reinterpret_cast<void*>(&cuDeviceTotalMem)},
    {"cuDeviceCanAccessPeer", reinterpret_cast<void*>(&cuDeviceCanAccessPeer)},
    {"cuDevicePrimaryCtxRetain", reinterpret_cast<void*>(&cuDevicePrimaryCtxRetain)},
    {"cuDevicePrimaryCtxRelease", reinterpret_cast<void*>(&cuDevicePrimaryCtxRelease)},
    {"cuDevicePrimaryCtxGetState", reinterpret_cast<void*>(&cuDevicePrimaryCtxGetState)},
    {"cuCtxCreate", reinterpret_cast<void*>(&cuCtxCreate)},
    {"cuCtxDestroy", reinterpret_cast<void*>(&cuCtxDestroy)},
    {"cuCtxGetCurrent", reinterpret_cast<void*>(&cuCtxGetCurrent)},
    {"cuCtxSetCurrent", reinterpret_cast<void*>(&cuCtxSetCurrent)},
    {"cuCtxPushCurrent", reinterpret_cast<void*>(&cuCtxPushCurrent)},
    {"cuCtxPopCurrent", reinterpret_cast<void*>(&cuCtxPopCurrent)},
    {"cuCtxGetDevice", reinterpret_cast<void*>(&cuCtxGetDevice)},
    {"cuCtxGetStreamPriorityRange", reinterpret_cast<void*>(&cuCtxGetStreamPriorityRange)},
    {"cuCtxSynchronize", reinterpret_cast<void*>(&cuCtxSynchronize)},
    {"cuThreadExchangeStreamCaptureMode",
     reinterpret_cast<void*>(&cuThreadExchangeStreamCaptureMode)},
    {"cuMemAlloc", reinterpret_cast<void*>(&cuMemAlloc)},
    {"cuMemFree", reinterpret_cast<void*>(&cuMemFree)},
    {"cuMemGetInfo", reinterpret_cast<void*>(&cuMemGetInfo)},
    {"cuMemGetAddressRange", reinterpret_cast<void*>(&cuMemGetAddressRange)},
    {"cuMemHostRegister", reinterpret_cast<void*>(&cuMemHostRegister)},
    {"cuMemHostUnregister", reinterpret_cast<void*>(&cuMemHostUnregister)},
    {"cuMemHostGetDevicePointer", reinterpret_cast<void*>(&cuMemHostGetDevicePointer)},
    {"cuPointerGetAttribute", reinterpret_cast<void*>(&cuPointerGetAttribute)},
    {"cuPointerGetAttributes", reinterpret_cast<void*>(&cuPointerGetAttributes)},
    {"cuPointerSetAttribute", reinterpret_cast<void*>(&cuPointerSetAttribute)},
    {"cuStreamCreate", reinterpret_cast<void*>(&cuStreamCreate)},
    {"cuStreamCreateWithPriority", reinterpret_cast<void*>(&cuStreamCreateWithPriority)},
    {"cuStreamDestroy", reinterpret_cast<void*>(&cuStreamDestroy)},
    {"cuEventCreate", reinterpret_cast<void*>(&cuEventCreate)},
    {"cuEventDestroy", reinterpret_cast<void*>(&cuEventDestroy)},
    {"cuEventQuery", reinterpret_cast<void*>(&cuEventQuery)},
    {"cuEventSynchronize", reinterpret_cast<void*>(&cuEventSynchronize)},
    {"cuIpcGetMemHandle", reinterpret_cast<void*>(&cuIpcGetMemHandle)},
    {"cuIpcOpenMemHandle", reinterpret_cast<void*>(&cuIpcOpenMemHandle)},
    {"cuIpcCloseMemHandle", reinterpret_cast<void*>(&cuIpcCloseMemHandle)},
    {"cuIpcGetEventHandle", reinterpret_cast<void*>(&cuIpcGetEventHandle)},
    {"cuIpcOpenEventHandle", reinterpret_cast<void*>(&cuIpcOpenEventHandle)},
};

void* driver_function(std::string_view symbol, bool per_thread) {
  for (const Entry& entry : kFunctions) {
    if (entry.name == symbol) return entry.function;
  }
  return per_thread ? driver_stream_function<true>(symbol) : driver_stream_function<false>(symbol);
}

}  // namespace

cudaError_t entry_point(Runtime& runtime, const char* symbol, void** function, unsigned version,
                        bool per_thread, cudaDriverEntryPointQueryResult* result) {
  if (symbol == nullptr || function == nullptr) return cudaErrorInvalidValue;
  *function = driver_function(symbol, per_thread);
  auto found =
      *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  // Nobody can promise what a later driver has.
  if (version > runtime.knob(Knob::kDriverVersion)) {
    *function = nullptr;
    found = cudaDriverEntryPointVersionNotSufficent;
  }
  if (result != nullptr) *result = found;
  const bool told = result != nullptr && found == cudaDriverEntryPointSymbolNotFound;
  return found == cudaDriverEntryPointSuccess || told ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace fakecuda

CUresult cuGetProcAddress(const char* symbol, void** function, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult* result) {
  fakecuda::Runtime* runtime = nullptr;
  if (fakecuda::Runtime::get(runtime) != cudaSuccess) return CUDA_ERROR_NOT_INITIALIZED;
  auto found = cudaDriverEntryPointSuccess;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  const cudaError_t error = fakecuda::entry_point(
      *runtime, symbol, function, static_cast<unsigned>(version), per_thread, &found);
  if (result != nullptr) *result = static_cast<CUdriverProcAddressQueryResult>(found);
  if (error == cudaSuccess && found == cudaDriverEntryPointSymbolNotFound)
    return CUDA_ERROR_NOT_FOUND;
  return static_cast<CUresult>(error);
}
