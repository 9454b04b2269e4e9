#include "client/arrays/registered_slots.h"

#include <sys/mman.h>

#include <utility>

#include "client/session/fork_guard.h"
#include "wire/held_mutexes.h"

namespace memlease::internal {

class RegisteredSlots::Registered {
 public:
  // nullptr: refused.
  static std::shared_ptr<const Registered> make(const Slot& slot, Importer& importer) {
    const MappedRanges::Pages pages =
        slot.at.ranges->map_once_more(slot.at.offset, slot.size_bytes);
    if (pages.data == nullptr) return nullptr;
    std::shared_ptr<Registered> made(new Registered(pages, importer, slot.file));
    auto registered =
        importer.register_pages(pages.data + pages.offset, slot.size_bytes, pages.writable);
    if (!registered.ok()) return nullptr;
    made->registered_ = *std::move(registered);
    // Whoever has copied there before has waited for that, and told.
    made->note_done();
    return made;
  }
  ~Registered() {
    if (fork_generation_ != fork_generation()) return;
    wire::expect_no_mutex_held("the unmapping of a slot");
    registered_.reset();
    munmap(pages_.data, pages_.size_bytes);
  }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

  std::byte* data() const { return pages_.data + pages_.offset; }
  bool writable() const { return pages_.writable; }
  // The order of copies is the slot's: who holds it reads, and who has it alone writes. A checker
  // of races, who does not see that, is told which copies have been waited for.
  void note_begin() const { importer_.checker_acquire(key(), 0); }
  void note_done() const { importer_.checker_release(key(), 0); }

 private:
  std::uint64_t key() const { return std::uint64_t{1} << 40 | wire::to_int(file_); }
  Registered(MappedRanges::Pages pages, Importer& importer, wire::FileId file)
      : pages_(pages), importer_(importer), file_(file) {}

  const MappedRanges::Pages pages_;
  Importer& importer_;
  const wire::FileId file_;
  const std::uint32_t fork_generation_ = fork_generation();
  std::unique_ptr<RegisteredPages> registered_;
};

std::shared_ptr<const RegisteredSlots::Registered> RegisteredSlots::find(const Slot& slot,
                                                                         bool& given_up) {
  const wire::MutexLock lock(mutex_);
  given_up = given_up_;
  const auto known = known_.find(slot.number);
  const bool is_there = known != known_.end() && known->second.place_word == slot.place_word;
  return is_there ? known->second.pages : nullptr;
}

// If another thread was faster, these serve one copy.
void RegisteredSlots::keep(const Slot& slot, std::shared_ptr<const Registered> made) {
  const wire::MutexLock lock(mutex_);
  Known& known = known_[slot.number];
  if (known.pages == nullptr || known.place_word != slot.place_word) {
    known.place_word = slot.place_word;
    std::swap(known.pages, made);
  }
  if (made != nullptr) of_nobody_.push_back(std::move(made));
}

bool RegisteredSlots::give_up() {
  const wire::MutexLock lock(mutex_);
  return !std::exchange(given_up_, true);
}

RegisteredBytes RegisteredSlots::begin_copy(const Slot& slot, bool to, std::uint64_t copied_bytes,
                                            Importer& importer, bool& refused) {
  refused = false;
  if (slot.size_bytes < kSmallestBytes) return nullptr;
  bool given_up = false;
  auto pages = find(slot, given_up);
  const bool is_small_part = copied_bytes < slot.size_bytes / kMostOfOne;
  if (pages == nullptr && (given_up || is_small_part)) return nullptr;
  if (pages == nullptr) {
    pages = Registered::make(slot, importer);
    if (pages == nullptr) {
      refused = give_up();
      return nullptr;
    }
    keep(slot, pages);
  }
  // What this process may not write is registered for reading alone.
  if (to && !pages->writable()) return nullptr;
  pages->note_begin();
  return {pages->data(), [pages](std::byte* /*data*/) { pages->note_done(); }};
}

OpenMemory RegisteredSlots::forget_from(std::uint32_t number) {
  const wire::MutexLock lock(mutex_);
  OpenMemory gone = std::exchange(of_nobody_, {});
  for (auto it = known_.lower_bound(number); it != known_.end(); it = known_.erase(it)) {
    gone.push_back(std::move(it->second.pages));
  }
  return gone;
}

}  // namespace memlease::internal
