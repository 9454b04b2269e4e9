#include "server/channel/command_lines.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "fmt/format.h"
#include "wire/mutex.h"

namespace memlease::server {

struct CommandLines::Shared {
  explicit Shared(Read read_in) : read(std::move(read_in)) {}

  const Read read;
  wire::Mutex mutex;
  wire::CondVar changed;
  std::optional<pid_t> question ABSL_GUARDED_BY(mutex);  // nobody has read it yet
  bool reading ABSL_GUARDED_BY(mutex) = false;
  std::optional<std::string> answer ABSL_GUARDED_BY(mutex);
  bool ending ABSL_GUARDED_BY(mutex) = false;
};

CommandLines::CommandLines(Read read, std::chrono::milliseconds pause)
    : shared_(std::make_shared<Shared>(std::move(read))), pause_(pause) {}

CommandLines::~CommandLines() {
  const wire::MutexLock lock(shared_->mutex);
  shared_->ending = true;
  shared_->changed.notify_all();
}

std::string CommandLines::of(pid_t pid) {
  const auto now = std::chrono::steady_clock::now();
  if (now < paused_until_) return name_of(pid);
  if (!started_) {
    try {
      std::thread(serve, shared_).detach();
      started_ = true;
    } catch (const std::system_error&) {
      return name_of(pid);  // the daemon gets no thread, now
    }
  }
  {
    const auto end = now + kMostWait;
    const wire::MutexLock lock(shared_->mutex);
    // Held up since an earlier question?
    if (!shared_->question && !shared_->reading) {
      shared_->answer.reset();
      shared_->question = pid;
      shared_->changed.notify_all();
      while (!shared_->answer &&
             shared_->changed.wait_until(shared_->mutex, end) == std::cv_status::no_timeout) {
      }
      if (!shared_->reading) shared_->question.reset();
      const auto after = std::chrono::steady_clock::now();
      const auto waited = after - now;
      if (!shared_->answer || waited >= kLongWait) {
        paused_until_ =
            after + (pause_ * waited.count() / std::chrono::nanoseconds(kMostWait).count());
      }
      if (shared_->answer && !shared_->answer->empty()) return *shared_->answer;
    }
  }
  return name_of(pid);
}

void CommandLines::serve(const std::shared_ptr<Shared>& shared) {
  wire::MutexLock lock(shared->mutex);
  for (;;) {
    while (!shared->ending && !shared->question) shared->changed.wait(shared->mutex);
    if (shared->ending) return;
    const pid_t pid = *std::exchange(shared->question, std::nullopt);
    shared->reading = true;
    lock.unlock();
    std::string answer = shared->read(pid);
    lock.lock();
    shared->reading = false;
    shared->answer = std::move(answer);
    shared->changed.notify_all();
  }
}

// The kernel's own record: read without a lock of the process.
std::string CommandLines::name_of(pid_t pid) {
  std::string name;
  std::ifstream stream(fmt::format("/proc/{}/comm", pid));
  std::getline(stream, name);
  return printable(std::move(name));
}

std::string CommandLines::read_command_line(pid_t pid) {
  std::string arguments(kMostBytes + 1, '\0');
  std::ifstream stream(fmt::format("/proc/{}/cmdline", pid), std::ios::binary);
  stream.read(arguments.data(), static_cast<std::streamsize>(arguments.size()));
  arguments.resize(static_cast<std::size_t>(std::max<std::streamsize>(stream.gcount(), 0)));
  return printable(std::move(arguments));
}

std::string CommandLines::printable(std::string arguments) {
  constexpr std::string_view kEnd = "...";
  while (!arguments.empty() && arguments.back() == '\0') arguments.pop_back();
  std::string out;
  for (const char c : arguments) {
    const auto byte = static_cast<unsigned char>(c);
    const std::string shown = c == '\0'              ? " "
                              : c >= ' ' && c <= '~' ? std::string(1, c)
                                                     : fmt::format("\\x{:02x}", byte);
    if (out.size() + shown.size() > kMostBytes) {
      out.resize(std::min(out.size(), kMostBytes - kEnd.size()));
      return out.append(kEnd);
    }
    out += shown;
  }
  return out;
}

}  // namespace memlease::server
