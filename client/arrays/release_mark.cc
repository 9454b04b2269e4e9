#include "client/arrays/release_mark.h"

#include <pthread.h>
#include <sched.h>

namespace memlease::internal {
namespace {

// One for each thread that has released something; never deleted, but used again by later threads.
struct alignas(64) ThreadWord {
  std::atomic<const void*> object{nullptr};
  std::atomic<bool> taken{true};
  ThreadWord* next = nullptr;
};

std::atomic<ThreadWord*> all_words{nullptr};

void give_back(void* word) {
  own_mark = nullptr;
  static_cast<ThreadWord*>(word)->taken.store(false);
}

// In a forked child, where there is only the thread that forked: the marks of the others would
// never go, and an object of the child's may come to be where theirs was.
void forget_other_threads() {
  for (ThreadWord* word = all_words.load(); word != nullptr; word = word->next) {
    if (&word->object == own_mark) continue;
    word->object.store(nullptr);
    word->taken.store(false);
  }
}

}  // namespace

thread_local constinit std::atomic<const void*>* own_mark = nullptr;

std::atomic<const void*>& ReleaseMark::take_word() {
  // A key rather than a thread_local's destructor: it works for what such destructors release too.
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    pthread_key_create(&made, give_back);
    pthread_atfork(nullptr, nullptr, forget_other_threads);
    return made;
  }();
  ThreadWord* word = all_words.load();
  for (bool taken = false; word != nullptr && !word->taken.compare_exchange_strong(taken, true);) {
    taken = false;
    word = word->next;
  }
  if (word == nullptr) {
    word = new ThreadWord;
    word->next = all_words.load();
    while (!all_words.compare_exchange_weak(word->next, word)) {
    }
  }
  pthread_setspecific(key, word);
  own_mark = &word->object;
  return word->object;
}

void ReleaseMark::await_none(const void* object) {
  for (const ThreadWord* word = all_words.load(); word != nullptr; word = word->next) {
    while (word->object.load() == object) sched_yield();
  }
}

}  // namespace memlease::internal
