#include "server/core/late_wakes.h"

#include <new>
#include <utility>

#include "wire/futex.h"

namespace memlease::server {
namespace {

thread_local LateWakes* current = nullptr;

}  // namespace

LateWakes::LateWakes(Words& crowded) : crowded_(crowded) { current = this; }

LateWakes::~LateWakes() {
  current = nullptr;
  std::erase_if(words_,
                [](const wire::HalfWord* word) { return wire::futex_wake(*word, kFew) < kFew; });
  crowded_ = std::move(words_);
}

void wake_crowds(const LateWakes::Words& words) {
  for (const wire::HalfWord* word : words) wire::futex_wake_all(*word);
}

void wake_sleepers(const wire::HalfWord& word) {
  if (current != nullptr) {
    try {
      return current->words_.push_back(&word);
    } catch (const std::bad_alloc&) {  // then now
    }
  }
  wire::futex_wake_all(word);
}

}  // namespace memlease::server
