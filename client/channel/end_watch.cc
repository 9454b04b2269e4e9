#include "client/channel/end_watch.h"

#include <poll.h>
#include <pthread.h>

#include <cerrno>
#include <system_error>
#include <thread>

#include "client/channel/attach_socket.h"
#include "client/session/wait_news.h"
#include "wire/signals_blocked.h"

namespace memlease::internal {

EndWatch::~EndWatch() { shared_->state.store(State::kOver); }

bool EndWatch::watch() {
  State before = shared_->state.load();
  do {
    if (before == State::kOver) return false;
  } while (!shared_->state.compare_exchange_weak(before, State::kAsked));
  if (before != State::kNone) return true;
  const wire::SignalsBlocked blocked;
  try {
    std::thread(run, shared_).detach();
    return true;
  } catch (const std::system_error&) {
    shared_->state.store(State::kNone);
    return false;
  }
}

void EndWatch::run(const std::shared_ptr<Shared>& shared) {
  ::pthread_setname_np(::pthread_self(), "memlease-end");
  const std::chrono::milliseconds interval = kEndWatchInterval;
  for (;;) {
    pollfd entry{shared->socket, POLLRDHUP, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(interval.count()));
    if (ready > 0) break;
    if (ready < 0 && errno != EINTR) {
      if (has_ended(shared->socket)) break;
      std::this_thread::sleep_for(interval);
    }
    State state = State::kAsked;
    if (shared->state.compare_exchange_strong(state, State::kIdle)) continue;
    if (state == State::kOver) return;
    if (shared->state.compare_exchange_strong(state, State::kNone)) return;
  }
  shared->state.store(State::kOver);
  wait_news.tell();
}

}  // namespace memlease::internal
