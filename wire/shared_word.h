// Access to words that several processes share. Each word has exactly one process that writes it;
// everybody else maps it read-only, loads it once into a local, checks that, and uses the local.
// Everything is sequentially consistent (on x86 a load is plain, a store one xchg), except for
// stores whose place among the process's other stores is all that matters:
// client/slots/slot_writer.cc.
#pragma once

#include <atomic>
#include <cstdint>

namespace memlease::wire {

using Word = std::atomic<std::uint64_t>;
// 32 bits, because a futex compares 32 bits. Also used for counts.
using HalfWord = std::atomic<std::uint32_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8);
static_assert(HalfWord::is_always_lock_free && sizeof(HalfWord) == 4);

}  // namespace memlease::wire
