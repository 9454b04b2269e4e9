#include "tests/support/fakecuda/ipc.h"

#include <cstring>

#include "tests/support/fakecuda/runtime.h"

namespace fakecuda {
namespace {

constexpr u32 kMemoryHandle = 0x6d65'6d31;
constexpr u32 kEventHandle = 0x6576'7431;

// The 64 bytes that travel.
struct Handle {
  u32 magic;
  u32 device;
  u32 pid;
  u32 slot;
  u64 pid_namespace;
  u64 start_time;
  u64 world;
  u64 size_bytes;
  u64 address;  // in the exporter
  u32 generation;
  u32 checksum;
};
static_assert(sizeof(Handle) == 64 && CUDA_IPC_HANDLE_SIZE == 64);

u32 checksum(Handle handle) {
  handle.checksum = 0;
  unsigned char bytes[sizeof handle];
  std::memcpy(bytes, &handle, sizeof handle);
  u32 sum = 2166136261U;
  for (const unsigned char byte : bytes) sum = (sum ^ byte) * 16777619U;
  return sum;
}

template <class Opaque>
void seal(Runtime& runtime, Handle handle, Opaque* out) {
  const Process& process = runtime.process();
  handle.pid = process.pid;
  handle.pid_namespace = process.pid_namespace;
  handle.start_time = process.start_time;
  handle.world = runtime.world().layout().id;
  handle.checksum = checksum(handle);
  std::memcpy(out, &handle, sizeof handle);
}

// What the driver looks at before it looks the thing up.
template <class Opaque>
cudaError_t unseal(Runtime& runtime, const Opaque& in, u32 magic, Handle& handle) {
  std::memcpy(&handle, &in, sizeof handle);
  if (handle.magic != magic || handle.checksum != checksum(handle) ||
      handle.world != runtime.world().layout().id) {
    return cudaErrorInvalidValue;
  }
  const Process& process = runtime.process();
  // By value: an exporter in another PID namespace may have the same number.
  if (handle.pid == process.pid) return cudaErrorDeviceUninitialized;
  if (runtime.knob(Knob::kPidNamespaceMatters) != 0 &&
      handle.pid_namespace != process.pid_namespace) {
    return cudaErrorMapBufferObjectFailed;
  }
  return cudaSuccess;
}

// Nothing of the world is held.
cudaError_t wait_to_open(Context& context) {
  return context.runtime.knob(Knob::kOpensWait) == 0 ? cudaSuccess : context.wait_for_all();
}

}  // namespace

cudaError_t export_memory(Context& context, cudaIpcMemHandle_t* handle, const void* address) {
  if (handle == nullptr) return cudaErrorInvalidValue;
  Runtime& runtime = context.runtime;
  const MappingPtr mapping = runtime.memory.find(address);
  // What was imported cannot be passed on.
  if (mapping == nullptr || mapping->kind != Mapping::Kind::kAllocated)
    return cudaErrorInvalidValue;
  if (mapping->bytes % kGranularity != 0) {
    runtime.violation(Violation::kSharedNeighbours, mapping->allocation, mapping->bytes);
  }
  Handle out = {};
  out.magic = kMemoryHandle;
  out.device = mapping->device;
  out.slot = mapping->slot;
  if (runtime.knob(Knob::kStaleHandlesAlias) == 0) {
    out.generation = mapping->generation;
    out.address = mapping->base;
  }
  out.size_bytes = mapping->bytes;
  seal(runtime, out, handle);
  return cudaSuccess;
}

cudaError_t import_memory(Context& context, void** address, const cudaIpcMemHandle_t& opaque,
                          unsigned flags) {
  if (address == nullptr || flags != cudaIpcMemLazyEnablePeerAccess) return cudaErrorInvalidValue;
  Runtime& runtime = context.runtime;
  Handle handle = {};
  if (const cudaError_t error = unseal(runtime, opaque, kMemoryHandle, handle);
      error != cudaSuccess) {
    return error;
  }
  if (handle.device != context.device && runtime.knob(Knob::kPeerAccess) == 0) {
    return cudaErrorInvalidDevice;
  }
  if (const cudaError_t error = wait_to_open(context); error != cudaSuccess) return error;
  const Turn turn(runtime.world());
  const Allocation& allocation = runtime.world().layout().allocations[handle.slot];
  const u32 generation = allocation.generation;
  if (allocation.state != Allocation::kLive ||
      (handle.generation != 0 && handle.generation != generation) ||
      runtime.world().gone(allocation.owner)) {
    return cudaErrorInvalidResourceHandle;
  }
  if (const MappingPtr open = runtime.memory.find_import(handle.slot); open != nullptr) {
    if (open->context != &context) return cudaErrorAlreadyMapped;
    runtime.memory.count_opens(*open, 1);
    ++runtime.process().imports;
    *address = open->address();
    return cudaSuccess;
  }
  MappingPtr mapping;
  const std::string file = runtime.world().file_of(allocation.id);
  const cudaError_t error =
      Mapping::map_device(runtime, Mapping::Kind::kImported, handle.slot, file, mapping);
  if (error != cudaSuccess) return error;
  mapping->ordinal = context.ordinal;
  mapping->context = &context;
  runtime.memory.add(mapping);
  ++runtime.process().imports;
  *address = mapping->address();
  return cudaSuccess;
}

cudaError_t close_memory(Context& context, void* address) {
  Runtime& runtime = context.runtime;
  if (const cudaError_t error = context.wait_to_close(); error != cudaSuccess) return error;
  const Turn turn(runtime.world());
  const MappingPtr mapping = runtime.memory.find(address);
  if (mapping == nullptr || mapping->kind != Mapping::Kind::kImported ||
      mapping->address() != address || mapping->context != &context) {
    return cudaErrorInvalidValue;
  }
  runtime.memory.count_opens(*mapping, -1);
  --runtime.process().imports;
  return cudaSuccess;
}

cudaError_t export_event(Context& context, cudaIpcEventHandle_t* handle, cudaEvent_t which) {
  if (handle == nullptr) return cudaErrorInvalidValue;
  Runtime& runtime = context.runtime;
  const EventPtr event = runtime.events.find(runtime, which);
  if (event == nullptr || event->imported || (event->flags & cudaEventInterprocess) == 0) {
    return cudaErrorInvalidResourceHandle;
  }
  if (runtime.knob(Knob::kIpcEvents) == 0) return cudaErrorNotSupported;
  Handle out = {};
  out.magic = kEventHandle;
  out.device = event->device;
  out.slot = event->slot;
  out.generation = event->generation;
  seal(runtime, out, handle);
  return cudaSuccess;
}

cudaError_t import_event(Context& context, cudaEvent_t* event, const cudaIpcEventHandle_t& opaque) {
  if (event == nullptr) return cudaErrorInvalidValue;
  Runtime& runtime = context.runtime;
  Handle handle = {};
  if (const cudaError_t error = unseal(runtime, opaque, kEventHandle, handle);
      error != cudaSuccess) {
    return error;
  }
  if (runtime.knob(Knob::kIpcEvents) == 0) return cudaErrorNotSupported;
  if (runtime.knob(Knob::kEventsPrivate) != 0) return cudaErrorMapBufferObjectFailed;
  if (const cudaError_t error = wait_to_open(context); error != cudaSuccess) return error;
  const Layout& layout = runtime.world().layout();
  const EventSlot& slot = layout.events[handle.slot];
  if (runtime.knob(Knob::kShmMatters) != 0 &&
      layout.processes[slot.owner].shm != runtime.process().shm) {
    return cudaErrorMapBufferObjectFailed;
  }
  if (slot.state != EventSlot::kLive || slot.generation != handle.generation) {
    return cudaErrorInvalidResourceHandle;
  }
  *event = runtime.events.add(std::make_shared<Event>(
      handle.slot, handle.generation, cudaEventInterprocess | cudaEventDisableTiming, handle.device,
      &context, true));
  ++runtime.process().events;
  return cudaSuccess;
}

}  // namespace fakecuda
