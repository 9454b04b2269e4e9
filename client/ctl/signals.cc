#include "client/ctl/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "wire/error.h"

namespace memlease::ctl {
namespace {

// What a handler can reach. gRPC has threads, and a signal comes to any.
std::atomic<int> wake_fd{-1};
std::atomic<bool> told_to_end{false};
std::array<std::atomic<bool>, NSIG> arrived{};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void wake() {
  const int error = errno;
  const char byte = 0;
  static_cast<void>(!::write(wake_fd.load(), &byte, 1));  // a full pipe wakes, too
  errno = error;
}

extern "C" void on_end(int /*signal*/) {
  told_to_end = true;
  wake();
}

extern "C" void on_other(int signal) {
  arrived.at(static_cast<std::size_t>(signal)) = true;
  wake();
}

}  // namespace

absl::Status cannot_write() {
  if (errno == EPIPE) return absl::CancelledError("nobody reads the answer");
  return wire::errno_error(wire::ErrorCode::kInternal, "cannot write the answer", errno);
}

// What has been interrupted has a code of its own.
bool has_no_reader(const absl::Status& status) {
  return absl::IsCancelled(status) && wire::code_of(status) == wire::ErrorCode::kInternal;
}

void end_by_pipe() {
  ::signal(SIGPIPE, SIG_DFL);
  ::raise(SIGPIPE);
  std::abort();  // it was blocked
}

Signals::Signals(std::initializer_list<int> also) {
  if (::pipe2(pipe_, O_CLOEXEC | O_NONBLOCK) != 0) std::abort();
  wake_fd = pipe_[1];
  told_to_end = false;
  const auto set = [this](int signal, void (*handler)(int)) {
    struct sigaction action{};
    action.sa_handler = handler;  // without SA_RESTART: a blocked write ends, too
    struct sigaction before{};
    if (::sigaction(signal, &action, &before) == 0) before_.emplace_back(signal, before);
  };
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP}) set(signal, on_end);
  for (const int signal : also) {
    arrived.at(static_cast<std::size_t>(signal)) = false;
    set(signal, on_other);
  }
  set(SIGPIPE, SIG_IGN);
}

Signals::~Signals() {
  for (const auto& [signal, action] : before_) ::sigaction(signal, &action, nullptr);
  wake_fd = -1;
  ::close(pipe_[0]);
  ::close(pipe_[1]);
}

bool Signals::ending() const { return told_to_end; }

bool Signals::take(int signal) {
  return arrived.at(static_cast<std::size_t>(signal)).exchange(false);
}

void Signals::wake() {
  const char byte = 0;
  static_cast<void>(!::write(pipe_[1], &byte, 1));  // a full pipe wakes, too
}

bool Signals::wait(std::chrono::milliseconds at_most, int fd) {
  std::array<pollfd, 2> polled = {{{pipe_[0], POLLIN, 0}, {fd, POLLIN, 0}}};
  if (::poll(polled.data(), polled.size(), static_cast<int>(at_most.count())) <= 0) return false;
  std::array<char, 64> bytes{};
  while (::read(pipe_[0], bytes.data(), bytes.size()) > 0) {
  }
  return polled[1].revents != 0;
}

}  // namespace memlease::ctl
