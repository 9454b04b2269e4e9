// What a late write to published bytes was, told by a signal handler before the process ends.
#include <memlease/client.h>
#include <memlease/for_bindings.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "client/arrays/fault_table.h"
#include "wire/mutex.h"

namespace memlease {
namespace {

using internal::FaultTable;

// What handled the signal before; written before our handler can run.
struct sigaction previous{};  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<int> reported_to{STDERR_FILENO};

// A line put together without memory from anywhere else. What does not fit is left out.
class Line {
 public:
  Line& add(std::string_view text) {
    const std::size_t count = std::min(text.size(), text_.size() - size_);
    std::memcpy(text_.data() + size_, text.data(), count);
    size_ += count;
    return *this;
  }
  Line& add(std::uint64_t number) {
    std::array<char, 20> digits;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    return add({digits.data(), static_cast<std::size_t>(end - digits.data())});
  }
  void report() const {
    const int fd = reported_to.load();
    std::size_t done = 0;
    while (done < size_) {
      const ssize_t count = ::write(fd, text_.data() + done, size_ - done);
      if (count <= 0) return;
      done += static_cast<std::size_t>(count);
    }
  }

 private:
  std::array<char, 640> text_;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  std::size_t size_ = 0;
};

// False if it is nothing of ours.
bool explain(const void* address) {
  const FaultTable::Place place = FaultTable::find(address);
  if (place.array == nullptr) return false;
  Line line;
  if (place.forked) {
    line.add("memlease: used a view of '").add(place.array);
    line.add("' that belongs to the parent process: views do not live on in a forked child; open ");
    line.add("the array there\n");
    line.report();
    return true;
  }
  line.add("memlease: wrote to a read-only view of '").add(place.array).add("'");
  if (place.version != 0) line.add(" v").add(place.version);
  line.add(" (slot ").add(place.slot);
  line.add(place.for_writing ? ", a view of a write lease that has ended" : "");
  line.add("): versions that were published do not change; copy it first\n");
  line.report();
  return true;
}

void handle_by_default(int signal) {
  struct sigaction by_default{};
  by_default.sa_handler = SIG_DFL;
  sigaction(signal, &by_default, nullptr);
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool is_fault = info->si_code == SEGV_ACCERR || info->si_code == SEGV_MAPERR;
  // A handler that returns from a fault of ours, or raises the signal, comes back to this one: it
  // would do so for ever.
  static std::atomic<bool> explained{false};
  const bool again = explained.load();
  if (is_fault && !again && explain(info->si_addr)) explained.store(true);
  errno = error;
  if (again) {
    handle_by_default(signal);
    if (!is_fault) raise(signal);
    return;
  }
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN) {
    // The instruction is tried again then, and ends the process; a signal that was sent is
    // repeated.
    handle_by_default(signal);
    if (!is_fault) raise(signal);
  } else {
    previous.sa_handler(signal);
  }
}

}  // namespace

namespace {

// `beside`: whatever else handles the signal now, which is called afterwards.
void install(bool beside) {
  static wire::Mutex& mutex = *new wire::Mutex;
  const wire::MutexLock lock(mutex);
  struct sigaction now{};
  sigaction(SIGSEGV, nullptr, &now);
  const bool is_ours = (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == &on_fault;
  const bool is_handled = (now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL;
  if (is_ours || (is_handled && !beside)) return;
  previous = now;
  struct sigaction ours{};
  ours.sa_sigaction = &on_fault;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  sigaction(SIGSEGV, &ours, nullptr);
}

}  // namespace

void explain_faults() { install(true); }

void internal::ForBindings::explain_faults_unless_handled() { install(false); }

int internal::ForBindings::explain_faults_to(int descriptor) noexcept {
  return reported_to.exchange(descriptor);
}

}  // namespace memlease
