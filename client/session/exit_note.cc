#include "client/session/exit_note.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "client/session/fork_guard.h"
#include "wire/mutex.h"

namespace memlease::internal {
namespace {

struct Notes {
  wire::Mutex mutex{wire::HeldOverLocks(5)};
  std::vector<const ExitNote*> all ABSL_GUARDED_BY(mutex);
};

// Never destroyed: static objects that end behind the notes still take theirs back.
Notes& notes() {
  static Notes* const the_notes = [] {
    auto* const made = new Notes;
    hold_over_fork(made->mutex, wire::HeldOverLocks(5));
    std::atexit(tell_of_exit);
    return made;
  }();
  return *the_notes;
}

// As the library is loaded: a fork may not come in the middle of it.
[[maybe_unused]] const Notes& made_at_load = notes();

}  // namespace

ExitNote::ExitNote(std::function<void()> tell) : tell_(std::move(tell)), process_(::getpid()) {
  Notes& it = notes();
  const wire::MutexLock lock(it.mutex);
  it.all.push_back(this);
}

ExitNote::~ExitNote() {
  Notes& it = notes();
  const wire::MutexLock lock(it.mutex);
  std::erase(it.all, this);
}

void ExitNote::tell() const {
  if (::getpid() == process_) tell_();
}

void tell_of_exit() {
  Notes& it = notes();
  const wire::MutexLock lock(it.mutex);
  for (const ExitNote* note : it.all) note->tell();
}

}  // namespace memlease::internal
