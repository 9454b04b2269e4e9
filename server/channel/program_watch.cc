#include "server/channel/program_watch.h"

#include <algorithm>
#include <utility>

#include "server/channel/process_watch.h"
#include "wire/process_stat.h"

namespace memlease::server {
namespace {

constexpr std::chrono::milliseconds kFirstPause{10};  // an exec is over by then, at most times
constexpr std::chrono::milliseconds kLongestPause{10'000};

}  // namespace

std::optional<ProgramMark> program_of(pid_t pid) {
  const auto stat = pid > 0 ? wire::ProcessStat::of(pid) : std::nullopt;
  const ProgramMark stack = stat ? stat->field(28) : 0;  // startstack
  if (stack == 0) return std::nullopt;
  return stack;
}

ProgramWatch::ProgramWatch(EventLoop* loop, pid_t pid, int pidfd, ProgramMark before, Look look,
                           std::function<void()> on_replaced)
    : loop_(loop),
      pid_(pid),
      pidfd_(pidfd),
      before_(before),
      look_(std::move(look)),
      on_replaced_(std::move(on_replaced)) {
  look_after(std::chrono::milliseconds{0});
}

ProgramWatch::~ProgramWatch() { loop_->cancel(timer_); }

void ProgramWatch::look_after(std::chrono::milliseconds pause) {
  timer_ = loop_->after(pause, [this, pause] { look(pause); });
}

void ProgramWatch::look(std::chrono::milliseconds pause) {
  const auto now = look_(pid_);
  if (has_exited(pidfd_)) return;  // so the number may have been another's; ProcessWatch tells
  if (!now || *now == before_) {
    look_after(std::clamp(2 * pause, kFirstPause, kLongestPause));
    return;
  }
  const auto on_replaced = on_replaced_;
  on_replaced();  // destroys *this
}

}  // namespace memlease::server
