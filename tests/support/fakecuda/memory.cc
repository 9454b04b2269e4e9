#include "tests/support/fakecuda/memory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/support/fakecuda/runtime.h"

namespace fakecuda {
namespace {

constexpr std::uintptr_t round_up(std::uintptr_t value) {
  return (value + kGranularity - 1) / kGranularity * kGranularity;
}

// Device addresses differ from process to process, even where the kernel does not randomise.
std::size_t stagger(const Runtime& runtime) {
  return (runtime.process_index() % 64 + 1) * kGranularity;
}

Allocation* claim_slot(Layout& layout, u32& slot) {
  for (slot = 0; slot < kMaxAllocations; ++slot) {
    u32 state = Allocation::kFree;
    Allocation& allocation = layout.allocations[slot];
    if (allocation.state == Allocation::kFree &&
        allocation.state.compare_exchange_strong(state, Allocation::kMaking)) {
      ++allocation.generation;
      return &allocation;
    }
  }
  return nullptr;
}

// False: its capacity does not hold it, or the machine's memory.
bool make_file(Runtime& runtime, Allocation& allocation, const std::string& file) {
  Device& device = runtime.world().layout().device[allocation.device];
  for (const bool reap : {false, true}) {
    const u64 used = runtime.world().used_bytes(allocation.device, reap);
    if (used + round_up(allocation.size_bytes) <= device.capacity_bytes) break;
    if (reap) return false;
  }
  const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const bool sized = ftruncate(fd, static_cast<off_t>(round_up(allocation.size_bytes))) == 0;
  close(fd);
  return sized;
}

}  // namespace

cudaError_t Mapping::map_device(Runtime& runtime, Kind kind, u32 slot, const std::string& file,
                                std::shared_ptr<Mapping>& mapping) {
  const Allocation& allocation = runtime.world().layout().allocations[slot];
  const std::size_t size = round_up(allocation.size_bytes);
  const int fd = open(file.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return cudaErrorInvalidResourceHandle;
  // The mappings keep the lock when the descriptor is closed, and the kernel drops it with them.
  const bool locked = flock(fd, LOCK_SH) == 0;
  const std::size_t reserved_bytes = size + stagger(runtime) + kGranularity;
  void* reserved =
      mmap(nullptr, reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void* writable = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  void* readable = mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
  close(fd);
  if (!locked || reserved == MAP_FAILED || writable == MAP_FAILED || readable == MAP_FAILED) {
    for (void* part : {writable, readable}) {
      if (part != MAP_FAILED) munmap(part, size);
    }
    if (reserved != MAP_FAILED) munmap(reserved, reserved_bytes);
    return cudaErrorMemoryAllocation;
  }
  // A forked child has no device memory, and must not keep it alive.
  madvise(writable, size, MADV_DONTFORK);
  madvise(readable, size, MADV_DONTFORK);
  const std::uintptr_t base =
      round_up(reinterpret_cast<std::uintptr_t>(reserved)) + stagger(runtime) - kGranularity;
  mapping = std::make_shared<Mapping>(kind, reinterpret_cast<void*>(base), allocation.size_bytes,
                                      allocation.id, 0, 0, false);
  mapping->writable_ = static_cast<char*>(writable);
  mapping->readable_ = static_cast<char*>(readable);
  mapping->reserved_ = reserved;
  mapping->reserved_bytes_ = reserved_bytes;
  mapping->device = allocation.device;
  mapping->slot = slot;
  mapping->generation = allocation.generation;
  return cudaSuccess;
}

Mapping::Mapping(Kind its_kind, void* address, std::size_t its_bytes, u64 its_allocation,
                 u64 its_offset, int its_ordinal, bool is_read_only)
    : kind(its_kind),
      base(reinterpret_cast<std::uintptr_t>(address)),
      bytes(its_bytes),
      allocation(its_allocation),
      offset(its_offset),
      ordinal(its_ordinal),
      writable_(static_cast<char*>(address)),
      readable_(writable_),
      read_only_(is_read_only) {}

Mapping::~Mapping() {
  if (on_device()) {
    munmap(writable_, round_up(bytes));
    munmap(readable_, round_up(bytes));
    munmap(reserved_, reserved_bytes_);
  } else if (kind == Kind::kHostBuffer) {
    std::free(writable_);
  }
}

MappingPtr MemoryMap::find(const void* address) const {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::shared_lock lock(mutex_);
  auto next = by_address_.upper_bound(at);
  if (next == by_address_.begin()) return nullptr;
  const MappingPtr& mapping = std::prev(next)->second;
  return at < mapping->base + mapping->bytes ? mapping : nullptr;
}

MappingPtr MemoryMap::find_import(u32 slot) const {
  const std::shared_lock lock(mutex_);
  for (const auto& [base, mapping] : by_address_) {
    if (mapping->kind == Mapping::Kind::kImported && mapping->slot == slot) return mapping;
  }
  return nullptr;
}

bool MemoryMap::add(const MappingPtr& mapping) {
  const std::unique_lock lock(mutex_);
  const auto next = by_address_.lower_bound(mapping->base);
  if (next != by_address_.end() && next->first < mapping->base + mapping->bytes) return false;
  if (next != by_address_.begin()) {
    const Mapping& before = *std::prev(next)->second;
    if (before.base + before.bytes > mapping->base) return false;
  }
  by_address_.emplace_hint(next, mapping->base, mapping);
  return true;
}

void MemoryMap::remove(const Mapping& mapping) {
  const std::unique_lock lock(mutex_);
  by_address_.erase(mapping.base);
}

void MemoryMap::clear() {
  const std::unique_lock lock(mutex_);
  by_address_.clear();
}

u32 MemoryMap::count_opens(Mapping& mapping, int change) {
  const std::unique_lock lock(mutex_);
  mapping.opens += static_cast<u32>(change);
  if (mapping.opens == 0) by_address_.erase(mapping.base);
  return mapping.opens;
}

cudaError_t allocate(Context& context, void** address, std::size_t bytes) {
  if (address == nullptr) return cudaErrorInvalidValue;
  *address = nullptr;
  if (bytes == 0) return cudaSuccess;
  Runtime& runtime = context.runtime;
  World& world = runtime.world();
  // No device is near that large, and rounding must not overflow.
  if (bytes > world.layout().device[context.device].capacity_bytes)
    return cudaErrorMemoryAllocation;
  const Turn turn(world);
  u32 slot = 0;
  Allocation* allocation = claim_slot(world.layout(), slot);
  if (allocation == nullptr) return cudaErrorMemoryAllocation;
  allocation->id = world.new_id();
  allocation->device = context.device;
  allocation->owner = runtime.process_index();
  allocation->size_bytes = bytes;
  const std::string file = world.file_of(allocation->id);
  MappingPtr mapping;
  if (!make_file(runtime, *allocation, file) ||
      Mapping::map_device(runtime, Mapping::Kind::kAllocated, slot, file, mapping) != cudaSuccess) {
    unlink(file.c_str());
    allocation->state = Allocation::kFree;
    return cudaErrorMemoryAllocation;
  }
  mapping->ordinal = context.ordinal;
  allocation->address = mapping->base;
  runtime.trace(Kind::kAllocate, allocation->id, bytes, runtime.process_index());
  runtime.memory.add(mapping);
  allocation->state = Allocation::kLive;
  ++runtime.process().allocations;
  *address = mapping->address();
  return cudaSuccess;
}

cudaError_t release(Context& context, void* address) {
  if (address == nullptr) return cudaSuccess;
  Runtime& runtime = context.runtime;
  MappingPtr mapping = runtime.memory.find(address);
  if (mapping == nullptr || mapping->kind != Mapping::Kind::kAllocated ||
      mapping->address() != address) {
    return cudaErrorInvalidValue;
  }
  // Freeing waits for the device that the memory is on, and for the context that frees it.
  Context& owner = runtime.primary(mapping->ordinal);
  cudaError_t error = owner.wait_for_all();
  if (error == cudaSuccess && &context != &owner) error = context.wait_for_all();
  if (error != cudaSuccess) return error;
  World& world = runtime.world();
  const Turn turn(world);
  Allocation& allocation = world.layout().allocations[mapping->slot];
  const u64 id = mapping->allocation;
  runtime.trace(Kind::kTouch, 0, runtime.name("cudaFree"));
  runtime.trace(Kind::kFree, id);
  allocation.state = Allocation::kFreed;
  runtime.memory.remove(*mapping);
  mapping.reset();
  --runtime.process().allocations;
  // Whoever else has it mapped, has it locked.
  const int fd = open(world.file_of(id).c_str(), O_RDWR | O_CLOEXEC);
  const bool unused = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
  if (fd >= 0) close(fd);
  if (!unused) {
    runtime.violation(Violation::kFreedWhileOpen, id);
    return cudaSuccess;
  }
  unlink(world.file_of(id).c_str());
  allocation.state = Allocation::kFree;
  return cudaSuccess;
}

cudaError_t memory_info(Context& context, std::size_t* free_bytes, std::size_t* total_bytes) {
  if (free_bytes == nullptr || total_bytes == nullptr) return cudaErrorInvalidValue;
  World& world = context.runtime.world();
  const Turn turn(world);
  *total_bytes = world.layout().device[context.device].capacity_bytes;
  *free_bytes =
      *total_bytes - std::min<std::size_t>(*total_bytes, world.used_bytes(context.device, true));
  return cudaSuccess;
}

}  // namespace fakecuda
