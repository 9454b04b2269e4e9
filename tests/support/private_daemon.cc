#include "tests/support/private_daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "fmt/format.h"
#include "gtest/gtest.h"
#include "memlease/v1/admin.pb.h"
#include "tests/support/in_build.h"
#include "tests/support/readable.h"
#include "tests/support/unix_socket.h"
#include "wire/error.h"

namespace memlease::testing {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using wire::UniqueFd;

[[noreturn]] void give_up(const std::string& what) {
  fmt::print(stderr, "{}: {}\n", what, std::strerror(errno));
  std::abort();
}

pid_t spawn(const std::vector<std::string>& arguments, const std::string& notify_socket,
            const std::string& output, const std::vector<std::string>& variables = {}) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const std::string notify = "NOTIFY_SOCKET=" + notify_socket;
  std::vector<char*> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, "MEMLEASE_", 9) != 0) environment.push_back(*variable);
  }
  for (const std::string& one : variables) environment.push_back(const_cast<char*>(one.c_str()));
  if (!notify_socket.empty()) environment.push_back(const_cast<char*>(notify.c_str()));
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t pid = 0;
  errno = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (errno != 0) give_up("posix_spawn " + arguments[0]);
  return pid;
}

UniqueFd listen_for_notice(const std::string& path) {
  UniqueFd socket = bind_unix(path, SOCK_DGRAM);
  if (!socket) give_up("bind " + path);
  return socket;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The exit code, as a shell has it.
int reap(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

PrivateDaemon::PrivateDaemon(std::vector<std::string> flags, uid_t uid, const std::string& program,
                             const std::vector<std::string>& variables)
    : directory_(home_.path() + "/run") {
  mkdir(directory_.c_str(), 0755);
  chmod(directory_.c_str(), 0755);
  const UniqueFd notices = listen_for_notice(home_.path() + "/notify");
  std::vector<std::string> arguments;
  if (uid != geteuid()) {
    for (const std::string& path : {directory_, home_.path() + "/notify"}) {
      if (chown(path.c_str(), uid, uid) != 0) give_up("chown " + path);
    }
    const std::string number = std::to_string(uid);
    arguments = {"/usr/bin/setpriv", "--reuid", number, "--regid", number, "--clear-groups"};
  }
  arguments.insert(arguments.end(), {in_build(program), "--directory=" + directory_});
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  pid_ = spawn(arguments, home_.path() + "/notify", home_.path() + "/log", variables);
  process_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  pollfd entries[] = {{notices.get(), POLLIN, 0}, {process_.get(), POLLIN, 0}};
  char text[256] = {};
  if (poll(entries, 2, 30'000) < 1 || entries[1].revents != 0 ||
      recv(notices.get(), text, sizeof text - 1, 0) < 0 ||
      std::strstr(text, "READY=1") == nullptr) {
    give_up("memleased did not get ready: " + log());
  }
}

PrivateDaemon::~PrivateDaemon() {
  admin_.reset();
  if (pid_ != 0) {
    // The first one drains, the second one does not wait for leases.
    signal(SIGTERM);
    signal(SIGTERM);
    EXPECT_EQ(wait(), 0) << log();
  }
  if (!killed_) {
    for (const auto& entry : fs::directory_iterator(directory_)) {
      ADD_FAILURE() << "memleased left " << entry.path();
    }
  }
  if (::testing::Test::HasFailure()) fmt::print(stderr, "The daemon's log:\n{}", log());
}

std::string PrivateDaemon::log() const { return text_of(home_.path() + "/log"); }

void PrivateDaemon::signal(int number) const { ::kill(pid_, number); }

void PrivateDaemon::stop() const {
  signal(SIGSTOP);
  const std::string tasks = "/proc/" + std::to_string(pid_) + "/task";
  const auto stands_still = [](const fs::directory_entry& task) {
    std::ifstream file(task.path() / "stat");
    const std::string stat(std::istreambuf_iterator<char>(file), {});
    return stat.empty() || stat.at(stat.rfind(')') + 2) == 'T';
  };
  while (!std::all_of(fs::directory_iterator(tasks), {}, stands_still)) std::this_thread::yield();
}

int PrivateDaemon::wait(int timeout_ms) {
  if (!readable(process_.get(), timeout_ms)) return -1;
  const int code = reap(pid_);
  killed_ = code >= 128;
  pid_ = 0;
  return code;
}

void PrivateDaemon::kill() {
  signal(SIGKILL);
  wait();
}

internal::AdminStub& PrivateDaemon::admin() {
  if (admin_ == nullptr) {
    auto stub = internal::AdminStub::connect(directory_);
    if (!stub.ok()) give_up(stub.status().ToString());
    admin_ = std::move(*stub);
  }
  return *admin_;
}

std::size_t PrivateDaemon::memfds() const {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", pid_))) {
    std::error_code gone;
    count += fs::read_symlink(entry.path(), gone).string().starts_with("/memfd:") ? 1 : 0;
  }
  return count;
}

std::size_t PrivateDaemon::threads() const {
  const fs::directory_iterator tasks(fmt::format("/proc/{}/task", pid_));
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

std::uint64_t PrivateDaemon::memory_bytes(std::string_view line) const {
  std::ifstream status(fmt::format("/proc/{}/status", pid_));
  for (std::string key; status >> key; status.ignore(1024, '\n')) {
    std::uint64_t kilobytes = 0;
    if (key == fmt::format("{}:", line) && status >> kilobytes) return kilobytes * 1024;
  }
  ADD_FAILURE() << "the kernel does not say what " << line << " the daemon has";
  return 0;
}

std::size_t PrivateDaemon::open_files() const {
  const fs::directory_iterator files(fmt::format("/proc/{}/fd", pid_));
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

std::string PrivateDaemon::books(std::size_t sessions) {
  const auto status = admin().status();
  const auto holders = admin().list_holders("");
  const auto arrays = admin().list_arrays("");
  if (!status.ok() || !holders.ok() || !arrays.ok()) return "the daemon does not answer";
  std::string standing;
  const auto expect = [&](const char* what, std::uint64_t is, std::uint64_t due) {
    if (is != due) standing += fmt::format("{} is {}, not {}; ", what, is, due);
  };
  expect("arrays", status->arrays(), 0);
  expect("sessions", status->sessions(), sessions);
  expect("array_bytes", status->array_bytes(), 0);
  // What is kept warm is not lost.
  expect("memory_bytes", status->memory_bytes(), status->warm_bytes());
  expect("holders", static_cast<std::uint64_t>(holders->holders_size()), 0);
  expect("listed arrays", static_cast<std::uint64_t>(arrays->arrays_size()), 0);
  for (const v1::Quota& quota : status->quotas()) {
    expect("bytes of a uid", quota.bytes(), 0);
    expect("arrays of a uid", quota.arrays(), 0);
  }
  return standing;
}

std::string PrivateDaemon::unsettled(std::size_t sessions, int timeout_ms) {
  const auto end = Clock::now() + std::chrono::milliseconds(timeout_ms);
  for (;;) {
    std::string standing = books(sessions);
    if (standing.empty() || Clock::now() >= end) return standing;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Finished run_program(const std::vector<std::string>& arguments) {
  const TemporaryFolder home;
  const std::string output = home.path() + "/output";
  const int exit_code = reap(spawn(arguments, "", output));
  return {exit_code, text_of(output)};
}

}  // namespace memlease::testing
