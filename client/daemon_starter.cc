#include "client/daemon_starter.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "wire/error.h"
#include "wire/unique_fd.h"

namespace memlease::internal {
namespace {

using wire::ErrorCode;
using wire::UniqueFd;

constexpr const char* kProgram = "memleased";
constexpr const char* kIdleExit = "--idle-exit-s=10";
constexpr int kExitBusy = 73;  // another one serves the directory: as good as ours

absl::Status failed(const std::string& what,
                    std::string_view hint =
                        "Start one by hand (memleased) to see more, or name "
                        "one with MEMLEASE_DAEMON.") {
  return wire::make_error(ErrorCode::kDaemonUnavailable, "no daemon answers, and " + what, hint);
}

absl::Status not_installed() {
  return failed("none can be started: there is no memleased in $PATH",
                "Install it, as by Debian's package memleased, or name it with MEMLEASE_DAEMON.");
}

// An installation has the library in lib/ and the program in bin/; a Python package has the program
// in bin/ beside the library; a build tree has it in bin/ above.
std::string find_program(const std::string& given) {
  if (!given.empty()) return given;
  if (const char* named = std::getenv("MEMLEASE_DAEMON"); named != nullptr && *named != '\0') {
    return named;
  }
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&start_daemon), &info) != 0 &&
      info.dli_fname != nullptr) {
    const auto folder = std::filesystem::absolute(info.dli_fname).parent_path();
    for (const auto& place : {folder / "bin", folder.parent_path() / "bin",
                              folder.parent_path().parent_path() / "bin"}) {
      const auto program = place / kProgram;
      if (access(program.c_str(), X_OK) == 0) return program.string();
    }
  }
  return kProgram;
}

// Everything until the other end closes, cut to a text's length.
absl::StatusOr<std::string> read_all(int fd, InterruptCheck interrupt) {
  std::string text;
  char buffer[512];
  for (;;) {
    pollfd entry{fd, POLLIN, 0};
    if (poll(&entry, 1, static_cast<int>(kInterruptInterval.count())) <= 0) {
      if (auto status = interrupt(); !status.ok()) return status;
      continue;
    }
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return text;
    if (text.size() < 2000) text.append(buffer, static_cast<std::size_t>(n));
  }
}

// What the daemon printed, as part of a message: lines of its log without their time and level, and
// with the hint as a sentence.
std::string in_a_message(const std::string& printed) {
  std::istringstream text(printed);
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    if (line.empty()) continue;
    constexpr std::string_view kLogged = "Z error   ";  // after the time
    const std::size_t logged = line.find(kLogged);
    if (logged < 24) line.erase(0, logged + kLogged.size());
    constexpr std::string_view kHint = " hint=\"";
    const std::size_t hint = line.rfind(kHint);
    if (hint != line.npos && line.ends_with('"')) {
      line.pop_back();
      line.replace(hint, kHint.size(), line[hint - 1] == '.' ? " " : ". ");
    }
    lines.push_back(line);
  }
  return fmt::format("{}", fmt::join(lines, "; "));
}

int wait_for_exit(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return -1;  // somebody else collects children here: cannot be known
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class SpawnSettings {
 public:
  explicit SpawnSettings(int output_fd) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, output_fd, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, output_fd, STDERR_FILENO);
    // The daemon blocks and handles signals its own way, whatever this process does.
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

}  // namespace

absl::StatusOr<std::string> start_daemon(const std::string& directory, const std::string& program,
                                         InterruptCheck interrupt) {
  const std::string path = find_program(program);
  const std::string directory_flag = "--directory=" + directory;
  std::vector<char*> arguments;
  for (const char* argument : {path.c_str(), "--background", directory_flag.c_str(), kIdleExit}) {
    arguments.push_back(const_cast<char*>(argument));
  }
  arguments.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return failed(fmt::format("pipe2: {}", std::strerror(errno)));
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const SpawnSettings settings(write_end.get());
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, path.c_str(), settings.actions(), settings.attributes(),
                                 arguments.data(), environ);
  write_end.reset();
  if (error == ENOENT && path == kProgram) return not_installed();
  if (error != 0) return failed(fmt::format("{} cannot be run: {}", path, std::strerror(error)));
  // The program returns when its child in the background serves (or not).
  const auto said = read_all(read_end.get(), interrupt);
  if (!said.ok()) kill(pid, SIGKILL);
  const int code = wait_for_exit(pid);
  if (!said.ok()) return said.status();
  if (code == 0 || code == kExitBusy) return std::string();
  if (code == -1) return in_a_message(*said);
  return failed(fmt::format("{} ended with code {}: {}", path, code, in_a_message(*said)));
}

}  // namespace memlease::internal
