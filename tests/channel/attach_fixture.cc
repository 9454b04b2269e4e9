#include "tests/channel/attach_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "client/channel/attach_client.h"
#include "fmt/format.h"
#include "server/loop/acceptor.h"
#include "tests/support/unix_socket.h"
#include "wire/error.h"

namespace memlease::testing {
namespace {

std::string socket_in(const std::string& directory) { return directory + "/attach.sock"; }

void close_all_but(std::vector<int> keep) {
  std::ranges::sort(keep);
  unsigned first = 3;
  for (const int fd : keep) {
    const auto kept = static_cast<unsigned>(fd);
    if (kept > first) ::close_range(first, kept - 1, 0);
    first = kept + 1;
  }
  ::close_range(first, ~0U, 0);
}

}  // namespace

Child::Child(const Work& work, std::vector<int> keep) {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  report_.reset(ends[0]);
  wire::UniqueFd writer(ends[1]);
  pid_ = ::fork();
  if (pid_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  keep.push_back(writer.get());
  close_all_but(keep);
  const std::string said = work();
  ::_exit(::write(writer.get(), said.data(), said.size()) < 0 ? 1 : 0);
}

Child::~Child() {
  if (pid_ < 0) return;
  kill();
  ::waitpid(pid_, nullptr, 0);
}

void Child::kill() const { ::kill(pid_, SIGKILL); }

std::string Child::reap() {
  std::string said(1000, '\0');
  const ssize_t size = ::read(report_.get(), said.data(), said.size());
  said.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  int status = 0;
  EXPECT_EQ(::waitpid(std::exchange(pid_, -1), &status, 0) > 0, true);
  if (WIFSIGNALED(status)) return fmt::format("signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) return fmt::format("exit status {}", WEXITSTATUS(status));
  return said;
}

Gate::Gate() {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  read_.reset(ends[0]);
  write_.reset(ends[1]);
}

void Gate::open() { EXPECT_EQ(::write(write_.get(), "", 1), 1); }

void Gate::wait() {
  write_.reset();
  char byte = 0;
  [[maybe_unused]] const auto size = ::read(read_.get(), &byte, 1);
}

AttachFixture::AttachFixture()
    : directory(folder_.path()), host([this] { loop->stop(); }), fds_before_(open_files()) {
  loop = *server::EventLoop::create();
  options.daemon_version = "1.2.3";
  options.incarnation = {1, 2, 3};
  options.log = [this](uid_t uid, const server::AttachOptions::Line& line) {
    log_uids.push_back(uid);
    log.push_back(line());
    loop->stop();
  };
}

AttachFixture::~AttachFixture() {
  server.reset();
  listener.reset();
  loop.reset();
  EXPECT_TRUE(closes_all_but(fds_before_));
}

void AttachFixture::listen() {
  const std::string path = socket_in(directory);
  listener = bind_unix(path, SOCK_SEQPACKET);
  ASSERT_TRUE(listener);
  ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
  ASSERT_EQ(::listen(listener.get(), 1024), 0);
}

void AttachFixture::serve() {
  if (!listener) listen();
  const int fd = listener.get();
  auto started = server::AttachServer::start(loop.get(), &host, std::move(listener), options);
  ASSERT_TRUE(started.ok()) << started.status();
  server = *std::move(started);
  const int on = 1;
  const bool as_older = options.pidfd_way == server::PidfdWay::kByNumber;
  if (as_older) ::setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &on, sizeof on);
  int passes = 1;
  socklen_t size = sizeof passes;
  ::getsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &passes, &size);  // not on older kernels
  lets_descriptors_through = passes == 1;
}

void AttachFixture::run_until(const std::function<bool()>& reached) {
  const auto deadline = server::EventLoop::Clock::now() + std::chrono::seconds(20);
  while (!reached()) {
    ASSERT_LT(server::EventLoop::Clock::now(), deadline) << "what the test waits for is late";
    // Not everything that a test waits for stops the loop.
    const auto look_again = loop->after(std::chrono::milliseconds(5), [this] { loop->stop(); });
    loop->run();
    loop->cancel(look_again);
  }
}

std::string AttachFixture::finish(Child& child) {
  bool ended = false;
  EXPECT_TRUE(loop->add(child.report(), EPOLLIN,
                        [&](std::uint32_t) {
                          ended = true;
                          loop->remove(child.report());
                          loop->stop();
                        })
                  .ok());
  run_until([&] { return ended; });
  if (!ended) return "did not end";
  return child.reap();
}

void AttachFixture::expect_service() {
  const auto sessions = host.peers.size();
  Child child([this]() -> std::string {
    const auto client = internal::AttachClient::connect(directory);
    return client.ok() ? "" : wire::message_of(client.status());
  });
  EXPECT_EQ(finish(child), "");
  EXPECT_EQ(host.peers.size(), sessions + 1);
  run_until([&] { return host.has(fmt::format("exited {}", sessions + 1)); });
}

std::string say(const absl::Status& status) {
  return fmt::format("{}: {}", wire::name_of(wire::code_of(status)), wire::message_of(status));
}

}  // namespace memlease::testing
