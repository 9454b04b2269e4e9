// A part of an object that most objects of its kind never need: made when one first does. Threads
// that come at once get the same one. Takes a pointer's room until then. Thread-safe.
#pragma once

#include <atomic>
#include <memory>

namespace memlease::internal {

template <typename T>
class Lazily {
 public:
  Lazily() = default;
  ~Lazily() { delete made_.load(); }
  Lazily(const Lazily&) = delete;
  Lazily& operator=(const Lazily&) = delete;

  // Makes it unless it is there. May throw std::bad_alloc.
  T& get() {
    if (T* const made = made_.load()) return *made;
    auto mine = std::make_unique<T>();
    T* others = nullptr;
    return made_.compare_exchange_strong(others, mine.get()) ? *mine.release() : *others;
  }
  // nullptr: nobody has needed it.
  T* if_made() const { return made_.load(); }

 private:
  std::atomic<T*> made_{nullptr};
};

}  // namespace memlease::internal
