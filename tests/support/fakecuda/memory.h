// Memory that the device can touch, as this process sees it. Device memory is a file of the world,
// which every process that opens it maps; its device address is reserved but cannot be touched, so
// that only a declared access gets at the bytes. Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>

#include "tests/support/fakecuda/layout.h"

namespace fakecuda {

class Context;
class Runtime;

enum class Access : int { kRead = 1, kWrite = 2, kReadWrite = 3 };
inline bool reads(Access access) { return (static_cast<int>(access) & 1) != 0; }
inline bool writes(Access access) { return (static_cast<int>(access) & 2) != 0; }

// One range of addresses. Unmapped with its last reference, so that an operation in progress
// finishes.
class Mapping {
 public:
  enum class Kind { kAllocated, kImported, kHostBuffer, kRegistered };

  // Maps the file of an allocation at a new address. cudaErrorMemoryAllocation if that fails.
  static cudaError_t map_device(Runtime& runtime, Kind kind, u32 slot, const std::string& file,
                                std::shared_ptr<Mapping>& mapping);
  // Host memory that is there already; kHostBuffer is freed with its mapping.
  Mapping(Kind kind, void* address, std::size_t bytes, u64 allocation, u64 offset, int ordinal,
          bool read_only);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  bool on_device() const { return kind == Kind::kAllocated || kind == Kind::kImported; }
  bool read_only() const { return read_only_; }
  // Where its first byte can be read, or written.
  char* alias(bool to_write) const { return to_write ? writable_ : readable_; }
  // Address as the API's callers know it.
  void* address(std::size_t at = 0) const { return reinterpret_cast<void*>(base + at); }

  const Kind kind;
  const std::uintptr_t base;
  const std::size_t bytes;
  const u64 allocation;  // what the trace calls it
  const u64 offset;      // of its first byte, as the trace counts
  u32 device = 0;
  u32 slot = 0;
  u32 generation = 0;
  int ordinal = 0;                   // of the context that made it
  const Context* context = nullptr;  // that opened it, if it is an imported one
  unsigned flags = 0;                // of host memory
  u32 opens = 1;                     // of an imported one
  std::atomic<u32> awaited = 0;      // operations of streams that have still to look at a word

 private:
  char* writable_;
  char* readable_;
  void* reserved_ = nullptr;
  std::size_t reserved_bytes_ = 0;
  bool read_only_ = false;
};
using MappingPtr = std::shared_ptr<Mapping>;

class MemoryMap {
 public:
  // What holds this address; null if nothing does.
  MappingPtr find(const void* address) const;
  // An import of this slot, if it is open.
  MappingPtr find_import(u32 slot) const;
  // False if it overlaps what is there.
  bool add(const MappingPtr& mapping);
  void remove(const Mapping& mapping);
  void clear();
  // One more or one less open of an import; how many there are then.
  u32 count_opens(Mapping& mapping, int change);

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::uintptr_t, MappingPtr> by_address_;
};

// cudaMalloc and cudaFree.
cudaError_t allocate(Context& context, void** address, std::size_t bytes);
cudaError_t release(Context& context, void* address);
cudaError_t memory_info(Context& context, std::size_t* free_bytes, std::size_t* total_bytes);

}  // namespace fakecuda
