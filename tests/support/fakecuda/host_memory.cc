#include "tests/support/fakecuda/host_memory.h"

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "tests/support/fakecuda/runtime.h"

namespace fakecuda {
namespace {

constexpr std::size_t kPage = 4096;
constexpr u64 kFileBit = 1ULL << 62;  // no allocation's number is that large

// The mapping of the process's that an address is in.
struct Found {
  std::uintptr_t end = 0;  // 0: none
  bool writable = false;
  u64 allocation = 0;  // the name of the file's memory, if it is mapped shared; else 0
  u64 offset = 0;
};

Found find_mapping(std::uintptr_t at) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t from = 0;
    std::uintptr_t to = 0;
    char mode[5] = "";
    u64 file_offset = 0;
    u32 major = 0;
    u32 minor = 0;
    u64 inode = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %x:%x %" SCNu64, &from,
                    &to, mode, &file_offset, &major, &minor, &inode) != 7) {
      continue;
    }
    if (at < from || at >= to) continue;
    Found found{to, mode[1] == 'w'};
    if (inode == 0 || mode[3] != 's') return found;
    const u64 device = u64{major} << 20 | minor;
    found.allocation = kFileBit | ((inode * 0x9e37'79b9'7f4a'7c15 + device) & (kFileBit - 1));
    found.offset = file_offset + (at - from);
    return found;
  }
  return {};
}

// Can the driver lock these pages? They are mapped, and can be written if the device is to.
bool can_be_locked(const void* address, std::size_t bytes, bool read_only) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  for (std::uintptr_t at = begin; at < begin + bytes;) {
    const Found found = find_mapping(at);
    if (found.end == 0 || !(read_only || found.writable)) return false;
    at = found.end;
  }
  return true;
}

MappingPtr find(Runtime& runtime, const void* address, Mapping::Kind kind) {
  MappingPtr mapping = runtime.memory.find(address);
  const bool right = mapping != nullptr && mapping->kind == kind && mapping->address() == address;
  return right ? mapping : nullptr;
}

}  // namespace

cudaError_t allocate_host(Context& context, void** address, std::size_t bytes, unsigned flags) {
  if (address == nullptr) return cudaErrorInvalidValue;
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  void* memory = std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage);
  if (memory == nullptr) return cudaErrorMemoryAllocation;
  Runtime& runtime = context.runtime;
  const auto mapping =
      std::make_shared<Mapping>(Mapping::Kind::kHostBuffer, memory, bytes, runtime.world().new_id(),
                                0, context.ordinal, false);
  mapping->flags = flags | cudaHostAllocMapped;
  mapping->device = context.device;
  runtime.memory.add(mapping);
  ++runtime.process().host_buffers;
  *address = memory;
  return cudaSuccess;
}

cudaError_t release_host(Context& context, void* address) {
  if (address == nullptr) return cudaSuccess;
  Runtime& runtime = context.runtime;
  const MappingPtr mapping = find(runtime, address, Mapping::Kind::kHostBuffer);
  if (mapping == nullptr) return cudaErrorInvalidValue;
  if (const cudaError_t error = context.wait_for_all(); error != cudaSuccess) return error;
  runtime.memory.remove(*mapping);
  --runtime.process().host_buffers;
  return cudaSuccess;
}

cudaError_t register_host(Context& context, void* address, std::size_t bytes, unsigned flags) {
  if (address == nullptr || bytes == 0) return cudaErrorInvalidValue;
  Runtime& runtime = context.runtime;
  const bool read_only = (flags & cudaHostRegisterReadOnly) != 0;
  if (read_only && runtime.knob(Knob::kReadOnlyRegister) == 0) return cudaErrorNotSupported;
  if (!can_be_locked(address, bytes, read_only)) return cudaErrorInvalidValue;
  const Found found = find_mapping(reinterpret_cast<std::uintptr_t>(address));
  const u64 allocation = found.allocation == 0 ? runtime.world().new_id() : found.allocation;
  const auto mapping =
      std::make_shared<Mapping>(Mapping::Kind::kRegistered, address, bytes, allocation,
                                found.offset, context.ordinal, read_only);
  mapping->flags = flags;
  mapping->device = context.device;
  if (!runtime.memory.add(mapping)) return cudaErrorHostMemoryAlreadyRegistered;
  ++runtime.process().host_buffers;
  return cudaSuccess;
}

cudaError_t unregister_host(Context& context, void* address) {
  Runtime& runtime = context.runtime;
  const MappingPtr mapping = find(runtime, address, Mapping::Kind::kRegistered);
  if (mapping == nullptr) return cudaErrorHostMemoryNotRegistered;
  // The driver had pages locked that the program thought it had given back.
  if (!can_be_locked(address, mapping->bytes, true)) {
    runtime.violation(Violation::kUnmappedWhileRegistered, mapping->allocation, mapping->bytes);
  }
  // A stream would fault there.
  if (mapping->awaited != 0) {
    runtime.violation(Violation::kUnregisteredWhileInUse, mapping->allocation, mapping->bytes);
  }
  if (const cudaError_t error = context.wait_to_close(); error != cudaSuccess) return error;
  runtime.memory.remove(*mapping);
  --runtime.process().host_buffers;
  return cudaSuccess;
}

bool name_of_shared(const void* address, u64& allocation, u64& offset) {
  const Found found = find_mapping(reinterpret_cast<std::uintptr_t>(address));
  allocation = found.allocation;
  offset = found.offset;
  return found.allocation != 0;
}

cudaError_t host_device_pointer(Runtime& runtime, void** device, void* host) {
  if (device == nullptr) return cudaErrorInvalidValue;
  const MappingPtr mapping = runtime.memory.find(host);
  if (mapping == nullptr || mapping->on_device()) return cudaErrorInvalidValue;
  *device = host;
  return cudaSuccess;
}

cudaError_t host_flags(Runtime& runtime, unsigned* flags, void* host) {
  if (flags == nullptr) return cudaErrorInvalidValue;
  const MappingPtr mapping = runtime.memory.find(host);
  if (mapping == nullptr || mapping->on_device()) return cudaErrorInvalidValue;
  *flags = mapping->flags;
  return cudaSuccess;
}

}  // namespace fakecuda
