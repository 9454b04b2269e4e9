// Waking those who sleep on a word of a shared page, of whom there may be any number, and not all
// of them friends. Thread-safe.
#pragma once

#include "wire/shared_word.h"

namespace memlease::wire {

// How many are woken before wake_all() returns. With exactly so many a thread is woken in vain, so
// it is no number that processes come in.
inline constexpr int kWokenAtOnce = 10;

// All who sleep on the word. Where there are more than the first few, a thread of this process
// wakes the rest, one after the other; it ends a second after there was no more to do. Threads of
// real-time policies wake all themselves, as they might keep that one from the processor. The
// word's page may go meanwhile.
void wake_all(const HalfWord& word);

}  // namespace memlease::wire
