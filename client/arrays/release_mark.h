// Says "this thread is still at work on that object" around a step that may give up the last thing
// which keeps the object alive: a lease's hold stands in shared memory, and where it goes no count
// of ours goes with it. Whoever deletes the object waits for the marks. Setting one costs two plain
// stores to a word of the thread's own; a counted reference would cost two locked operations.
//
// The mark is stored before the hold is given up, by a sequentially consistent operation: who finds
// the hold gone finds the mark, or that it has gone too.
#pragma once

#include <atomic>

namespace memlease::internal {

// The thread's word; null before its first mark. The library is linked, or loaded with the program
// that needs it, so these bytes find room in the first TLS block, where one instruction reaches
// them.
[[gnu::tls_model("initial-exec")]] extern thread_local constinit std::atomic<const void*>* own_mark;

class ReleaseMark {
 public:
  explicit ReleaseMark(const void* object) : word_(own_mark != nullptr ? *own_mark : take_word()) {
    word_.store(object, std::memory_order_relaxed);
  }
  ~ReleaseMark() { word_.store(nullptr, std::memory_order_release); }
  ReleaseMark(const ReleaseMark&) = delete;
  ReleaseMark& operator=(const ReleaseMark&) = delete;

  // Returns once no thread has a mark on the object. To be called where no new mark can come. In a
  // forked child the parent's threads have none.
  static void await_none(const void* object);

 private:
  static std::atomic<const void*>& take_word();

  std::atomic<const void*>& word_;
};

}  // namespace memlease::internal
