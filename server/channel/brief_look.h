// Looks at a process, where that may take as long as somebody likes. A thread of its own looks, and
// whoever asks waits for it a moment at most, and after a long wait not at all for forty times as
// long.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "wire/mutex.h"

namespace memlease::server {

// Belongs to one thread, the loop's.
template <typename Answer>
class BriefLook {
 public:
  static constexpr std::chrono::milliseconds kMostWait{250};
  static constexpr std::chrono::milliseconds kLongWait{20};
  static constexpr std::chrono::milliseconds kPause{10'000};  // after kMostWait
  using Look = std::function<Answer(pid_t)>;

  // `look` is called by the thread, which begins with the first question.
  explicit BriefLook(Look look, std::chrono::milliseconds pause = kPause)
      : shared_(std::make_shared<Shared>(std::move(look))), pause_(pause) {}
  // Does not wait for a look that is held up; its thread ends when that does.
  ~BriefLook() {
    bool is_held_up = false;
    {
      const wire::MutexLock lock(shared_->mutex);
      shared_->ending = true;
      shared_->changed.notify_all();
      is_held_up = shared_->looking;
    }
    if (thread_.joinable()) is_held_up ? thread_.detach() : thread_.join();
  }
  BriefLook(const BriefLook&) = delete;
  BriefLook& operator=(const BriefLook&) = delete;

  // Nothing: not now.
  std::optional<Answer> at(pid_t pid) {
    const auto now = std::chrono::steady_clock::now();
    if (now < paused_until_ || !has_thread()) return std::nullopt;
    const wire::MutexLock lock(shared_->mutex);
    if (shared_->question || shared_->looking) return std::nullopt;  // held up by an earlier one
    shared_->answer.reset();
    shared_->question = pid;
    shared_->changed.notify_all();
    const auto end = now + kMostWait;
    while (!shared_->answer &&
           shared_->changed.wait_until(shared_->mutex, end) == std::cv_status::no_timeout) {
    }
    if (!shared_->looking) shared_->question.reset();
    const auto after = std::chrono::steady_clock::now();
    const auto waited = after - now;
    if (!shared_->answer || waited >= kLongWait) {
      paused_until_ =
          after + (pause_ * waited.count() / std::chrono::nanoseconds(kMostWait).count());
    }
    return shared_->answer;
  }

 private:
  struct Shared {
    explicit Shared(Look look_at) : look(std::move(look_at)) {}

    const Look look;
    wire::Mutex mutex;
    wire::CondVar changed;
    std::optional<pid_t> question ABSL_GUARDED_BY(mutex);  // nobody has looked yet
    bool looking ABSL_GUARDED_BY(mutex) = false;
    std::optional<Answer> answer ABSL_GUARDED_BY(mutex);
    bool ending ABSL_GUARDED_BY(mutex) = false;
  };

  bool has_thread() {
    if (thread_.joinable()) return true;
    try {
      thread_ = std::thread(serve, shared_);
    } catch (const std::system_error&) {  // the daemon gets none, now
    }
    return thread_.joinable();
  }

  static void serve(const std::shared_ptr<Shared>& shared) {
    wire::MutexLock lock(shared->mutex);
    for (;;) {
      while (!shared->ending && !shared->question) shared->changed.wait(shared->mutex);
      if (shared->ending) return;
      const pid_t pid = *std::exchange(shared->question, std::nullopt);
      shared->looking = true;
      lock.unlock();
      Answer answer = shared->look(pid);
      lock.lock();
      shared->looking = false;
      shared->answer = std::move(answer);
      shared->changed.notify_all();
    }
  }

  const std::shared_ptr<Shared> shared_;
  const std::chrono::milliseconds pause_;
  std::thread thread_;
  std::chrono::steady_clock::time_point paused_until_{};
};

}  // namespace memlease::server
