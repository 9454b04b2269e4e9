#include "server/channel/program_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "server/channel/process_watch.h"
#include "wire/unique_fd.h"

namespace memlease::server {
namespace {

constexpr std::chrono::milliseconds kFirstPause{10};  // an exec is over by then, at most times
constexpr std::chrono::milliseconds kLongestPause{10'000};

}  // namespace

std::optional<ProgramMark> program_of(pid_t pid) {
  const wire::UniqueFd file(
      ::open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 2'048> line;  // the name, and some fifty numbers
  const ssize_t size = file ? ::read(file.get(), line.data(), line.size()) : -1;
  std::string_view fields(line.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  // proc(5): the second field, in parentheses, may have any characters; startstack is the 28th.
  std::size_t at = fields.rfind(')');
  for (int number = 2; number < 28 && at != std::string_view::npos; ++number) {
    at = fields.find(' ', at + 1);
  }
  if (at == std::string_view::npos) return std::nullopt;
  fields.remove_prefix(at + 1);
  ProgramMark stack = 0;
  std::from_chars(fields.data(), fields.data() + fields.size(), stack);
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
