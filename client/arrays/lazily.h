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
    return get([] { return std::make_unique<T>(); });
  }
  template <typename Make>
  T& get(Make make) {
    if (T* const made = made_.load()) return *made;
    std::unique_ptr<T> mine = make();
    T* others = nullptr;
    return made_.compare_exchange_strong(others, mine.get()) ? *mine.release() : *others;
  }
  // Made by the one thread that makes it: the others look by if_made().
  T& set(std::unique_ptr<T> made) {
    made_.store(made.get());
    return *made.release();
  }
  // nullptr: nobody has needed it.
  T* if_made() const { return made_.load(); }

 private:
  std::atomic<T*> made_{nullptr};
};

}  // namespace memlease::internal
