#include "tests/support/fakecuda/word.h"

#include <cuda.h>

#include <utility>

#include "tests/support/fakecuda/futex.h"
#include "tests/support/fakecuda/host_memory.h"
#include "tests/support/fakecuda/runtime.h"
#include "tests/support/fakecuda/stream.h"
#include "tests/support/fakecuda/word_condition.h"

namespace fakecuda {
namespace {

struct Word {
  MappingPtr mapping;
  std::size_t at = 0;  // in the mapping
  std::size_t bytes = 0;

  u64 offset() const { return mapping->offset + at; }
  u64 load() const {
    char* address = mapping->alias(false) + at;
    if (bytes == 4) return reinterpret_cast<std::atomic<u32>*>(address)->load();
    return reinterpret_cast<std::atomic<u64>*>(address)->load();
  }
  void store(u64 value) const {
    char* address = mapping->alias(true) + at;
    if (bytes == 4) {
      reinterpret_cast<std::atomic<u32>*>(address)->store(static_cast<u32>(value));
    } else {
      reinterpret_cast<std::atomic<u64>*>(address)->store(value);
    }
  }
  // Streams that wait for it sleep here: a CPU's store wakes nobody.
  std::atomic<u32>& wakes(World& world) const {
    const u64 key = (mapping->allocation * 0x9e37'79b9'7f4a'7c15) ^ offset();
    return world.layout().word_wakes[(key >> 3) % kWakeWords];
  }
  // A wait for 4 bytes compares 4 bytes.
  u64 extended(u64 value) const {
    return bytes == 8
               ? value
               : static_cast<u64>(static_cast<std::int64_t>(static_cast<std::int32_t>(value)));
  }
};

// The stream has still to look at the word.
class Pending {
 public:
  explicit Pending(const Word& word) : mapping_(word.mapping) { ++mapping_->awaited; }
  ~Pending() { end(); }
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;
  void end() {
    if (mapping_ != nullptr) --std::exchange(mapping_, nullptr)->awaited;
  }

 private:
  MappingPtr mapping_;
};

class WriteOperation : public Operation {
 public:
  WriteOperation(Word word, u64 value)
      : Operation("cuStreamWriteValue"), word_(std::move(word)), value_(value), pending_(word_) {}
  void run(Stream& stream) override {
    const u64 value = word_.extended(value_);
    const u64 before = word_.extended(word_.load());
    stream.trace(Kind::kWriteWord, word_.mapping->allocation, word_.offset(), value);
    // Those who wait for a value in between would be stranded.
    if (static_cast<std::int64_t>(value - before) < 0) {
      stream.trace(Kind::kViolation, static_cast<u64>(Violation::kUnorderedWord), word_.offset(),
                   value);
    }
    pending_.end();  // before a host can see what is written
    word_.store(value_);
    bump(word_.wakes(stream.runtime().world()));
  }

 private:
  const Word word_;
  const u64 value_;
  Pending pending_;
};

class WaitOperation : public Operation {
 public:
  WaitOperation(Word word, u64 value, u32 condition)
      : Operation("cuStreamWaitValue"),
        word_(std::move(word)),
        value_(word_.extended(value)),
        condition_(condition),
        pending_(word_) {}
  void run(Stream& stream) override {
    std::atomic<u32>& wakes = word_.wakes(stream.runtime().world());
    for (bool look = true;;) {
      const u32 seen = wakes;
      if (look && word_answers(word_.extended(word_.load()), value_, condition_)) break;
      if (stream.cancelled()) return;
      wait_a_little(wakes, seen);
      look = wakes != seen || stream.runtime().knob(Knob::kCpuStoreWakes) != 0;
    }
    pending_.end();
    stream.trace(Kind::kWaitWord, word_.mapping->allocation, word_.offset() | u64{condition_} << 60,
                 value_);
  }

 private:
  const Word word_;
  const u64 value_;
  const u32 condition_;
  Pending pending_;
};

cudaError_t find(Runtime& runtime, const void* address, std::size_t bytes, Word& word) {
  if (runtime.knob(Knob::kStreamMemoryOps) == 0) return cudaErrorNotSupported;
  const MappingPtr mapping = runtime.memory.find(address);
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (mapping == nullptr || at % bytes != 0 || at + bytes > mapping->base + mapping->bytes) {
    return cudaErrorInvalidValue;
  }
  const bool elsewhere = runtime.knob(Knob::kRegisteredInPlace) == 0;
  if (mapping->kind == Mapping::Kind::kRegistered && elsewhere) return cudaErrorInvalidValue;
  word = {mapping, at - mapping->base, bytes};
  return cudaSuccess;
}

}  // namespace

cudaError_t write_word(Runtime& runtime, Stream& stream, const void* address, u64 value,
                       std::size_t bytes, unsigned flags) {
  Word word;
  if ((flags & ~unsigned{CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER}) != 0) {
    return cudaErrorInvalidValue;
  }
  const cudaError_t error = find(runtime, address, bytes, word);
  if (error != cudaSuccess) return error;
  if (word.mapping->read_only()) return cudaErrorInvalidValue;
  return stream.enqueue(std::make_unique<WriteOperation>(std::move(word), value));
}

void saw_word(Runtime& runtime, const void* address) {
  u64 allocation = 0;
  u64 offset = 0;
  if (const MappingPtr mapping = runtime.memory.find(address); mapping != nullptr) {
    allocation = mapping->allocation;
    offset = mapping->offset + (reinterpret_cast<std::uintptr_t>(address) - mapping->base);
  } else if (!name_of_shared(address, allocation, offset)) {
    return;
  }
  const u64 value = static_cast<const std::atomic<u64>*>(address)->load();
  runtime.trace(Kind::kSawWord, allocation, offset, value);
}

cudaError_t wait_word(Runtime& runtime, Stream& stream, const void* address, u64 value,
                      std::size_t bytes, unsigned flags) {
  Word word;
  // No flushing of remote writes: attribute 98 says so.
  if (flags > CU_STREAM_WAIT_VALUE_NOR) return cudaErrorInvalidValue;
  const cudaError_t error = find(runtime, address, bytes, word);
  if (error != cudaSuccess) return error;
  return stream.enqueue(std::make_unique<WaitOperation>(std::move(word), value, flags));
}

}  // namespace fakecuda
