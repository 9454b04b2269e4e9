#include "server/core/late_wakes.h"

#include <new>

#include "wire/futex.h"

namespace memlease::server {
namespace {

thread_local LateWakes* current = nullptr;

}  // namespace

LateWakes::LateWakes() { current = this; }

LateWakes::~LateWakes() {
  current = nullptr;
  for (const wire::HalfWord* word : words_) wire::futex_wake_all(*word);
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
