// Whom the core wakes: processes that sleep on words of boards, any number of them, as a thread may
// wait for 128 words at once. To wake a million takes half a second, for which nobody else should
// wait.
#pragma once

#include <vector>

#include "wire/shared_word.h"

namespace memlease::server {

// While one lives, wake_sleepers() on its thread only notes whom; its end wakes them. So one is
// made before the core is locked, and ends when that is unlocked, and the boards still stand. It
// wakes kFew of each word; where there may be more, the word is added to `crowded`, for them to be
// woken where nobody waits for that.
class LateWakes {
 public:
  static constexpr int kFew = 128;
  using Words = std::vector<const wire::HalfWord*>;
  explicit LateWakes(Words& crowded);
  ~LateWakes();
  LateWakes(const LateWakes&) = delete;
  LateWakes& operator=(const LateWakes&) = delete;

 private:
  friend void wake_sleepers(const wire::HalfWord& word);
  Words& crowded_;
  Words words_;
};

// All who sleep on crowded words, whose boards still stand.
void wake_crowds(const LateWakes::Words& words);

// Everybody who sleeps on the word, which has changed: now, where no LateWakes lives.
void wake_sleepers(const wire::HalfWord& word);

}  // namespace memlease::server
