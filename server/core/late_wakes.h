// Whom the core wakes: processes that sleep on words of boards, any number of them, as a thread may
// wait for 128 words at once. To wake a million takes half a second, for which nobody else should
// wait.
#pragma once

#include <vector>

#include "wire/shared_word.h"

namespace memlease::server {

// While one lives, wake_sleepers() on its thread only notes whom; its end wakes them. So one is
// made before the core is locked, and ends when that is unlocked, and the boards still stand.
class LateWakes {
 public:
  LateWakes();
  ~LateWakes();
  LateWakes(const LateWakes&) = delete;
  LateWakes& operator=(const LateWakes&) = delete;

 private:
  friend void wake_sleepers(const wire::HalfWord& word);
  std::vector<const wire::HalfWord*> words_;
};

// Everybody who sleeps on the word, which has changed: now, where no LateWakes lives.
void wake_sleepers(const wire::HalfWord& word);

}  // namespace memlease::server
