// Loaded into a daemon before all else: calls of the kernel that fail as a test says.
// What the C library calls within itself does not come by here.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>

#include "tests/support/refused_calls.h"
#include "tests/support/shared_with_test.h"

namespace memlease::testing {
namespace {

constexpr int kPeerPidfd = 77;  // SO_PEERPIDFD, which the C library's headers may lack

template <typename Function>
Function* real(Function* /*ours*/, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}
// The C library's own.
#define NEXT(function)                                                         \
  ([] {                                                                        \
    static const auto kNext = memlease::testing::real(&::function, #function); \
    return kNext;                                                              \
  }())

RefusedCalls* plan = nullptr;

// Before main().
[[gnu::constructor]] void share() { plan = shared_with_test<RefusedCalls>(); }

bool is_planned(KernelCall call) { return plan != nullptr && plan->call.load() == call; }

// This one. errno is set, unless its result is to be short.
bool fails(KernelCall call) {
  if (!is_planned(call) || plan->calls_left.fetch_sub(1) != 1) return false;
  plan->failed.fetch_add(1);
  errno = plan->error.load();
  return true;
}

// What a call that fails returns: -1, or the result for one byte.
template <typename Call>
ssize_t shortened(const Call& call) {
  return plan->error.load() == kShortResult ? call(1) : -1;
}

bool is_stream(int socket) {
  int type = 0;
  socklen_t size = sizeof type;
  return NEXT(getsockopt)(socket, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

// No kernel says so of a stream that has room or bytes, and who hears it waits for the change.
bool is_impossible(int socket) {
  return plan != nullptr && plan->error.load() == EAGAIN && is_stream(socket);
}

// The log. What else is written to by this call are eventfds, and those have room.
bool is_regular(int fd) {
  struct stat status{};
  return NEXT(fstat)(fd, &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace
}  // namespace memlease::testing

using memlease::testing::fails;
using memlease::testing::is_impossible;
using memlease::testing::is_planned;
using memlease::testing::is_regular;
using memlease::testing::KernelCall;
using memlease::testing::shortened;

#pragma GCC visibility push(default)
extern "C" {

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
int accept4(int socket, sockaddr* address, socklen_t* size, int flags) {
  if (fails(KernelCall::kAccept)) return -1;
  return NEXT(accept4)(socket, address, size, flags);
}

int epoll_wait(int epoll, epoll_event* events, int most, int timeout) {
  if (fails(KernelCall::kEpollWait)) return -1;
  return NEXT(epoll_wait)(epoll, events, most, timeout);
}

int fallocate(int fd, int mode, off_t offset, off_t size) {
  if (fails(KernelCall::kFallocate)) return -1;
  return NEXT(fallocate)(fd, mode, offset, size);
}

int fchmod(int fd, mode_t mode) noexcept {
  if (fails(KernelCall::kFchmod)) return -1;
  return NEXT(fchmod)(fd, mode);
}

int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (command == F_ADD_SEALS && fails(KernelCall::kSeal)) return -1;
  if (command == F_DUPFD_CLOEXEC && fails(KernelCall::kDuplicate)) return -1;
  return NEXT(fcntl)(fd, command, argument);
}

int fstat(int fd, struct stat* status) noexcept {
  if (fails(KernelCall::kFstat)) return -1;
  return NEXT(fstat)(fd, status);
}

int ftruncate(int fd, off_t size) noexcept {
  if (fails(KernelCall::kFtruncate)) return -1;
  return NEXT(ftruncate)(fd, size);
}

int getsockopt(int socket, int level, int option, void* value, socklen_t* size) noexcept {
  using memlease::testing::kPeerPidfd;
  if (level == SOL_SOCKET && option == kPeerPidfd && is_planned(KernelCall::kPidfdOpen)) {
    errno = ENOPROTOOPT;
    return -1;
  }
  if (fails(KernelCall::kGetsockopt)) return -1;
  return NEXT(getsockopt)(socket, level, option, value, size);
}

int inotify_add_watch(int fd, const char* path, uint32_t events) noexcept {
  if (fails(KernelCall::kWatchFile)) return -1;
  return NEXT(inotify_add_watch)(fd, path, events);
}

int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (fails(KernelCall::kIoctl)) return -1;
  return NEXT(ioctl)(fd, request, argument);
}

int memfd_create(const char* name, unsigned flags) noexcept {
  if (fails(KernelCall::kMemfdCreate)) return -1;
  return NEXT(memfd_create)(name, flags);
}

void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  if (fd >= 0 && fails(KernelCall::kMmap)) return MAP_FAILED;
  return NEXT(mmap)(at, size, protection, flags, fd, offset);
}

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if (fails(KernelCall::kOpen)) return -1;
  return NEXT(open)(path, flags, mode);
}

int pipe2(int ends[2], int flags) noexcept {
  if (fails(KernelCall::kPipe)) return -1;
  return NEXT(pipe2)(ends, flags);
}

int poll(pollfd* entries, nfds_t count, int timeout) {
  if (fails(KernelCall::kPoll)) return -1;
  return NEXT(poll)(entries, count, timeout);
}

ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  if (fails(KernelCall::kPwrite)) return -1;
  return NEXT(pwrite)(fd, bytes, size, offset);
}

ssize_t read(int fd, void* bytes, size_t size) {
  const auto call = [&](size_t most) { return NEXT(read)(fd, bytes, std::min(most, size)); };
  return fails(KernelCall::kRead) ? shortened(call) : call(size);
}

ssize_t recv(int socket, void* bytes, size_t size, int flags) {
  const auto call = [&](size_t most) {
    return NEXT(recv)(socket, bytes, std::min(most, size), flags);
  };
  return fails(KernelCall::kRecv) ? shortened(call) : call(size);
}

ssize_t recvmsg(int socket, msghdr* message, int flags) {
  if (!is_impossible(socket) && fails(KernelCall::kRecvmsg)) return -1;
  return NEXT(recvmsg)(socket, message, flags);
}

ssize_t send(int socket, const void* bytes, size_t size, int flags) {
  const auto call = [&](size_t most) {
    return NEXT(send)(socket, bytes, std::min(most, size), flags);
  };
  return fails(KernelCall::kSend) ? shortened(call) : call(size);
}

ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  if (!is_impossible(socket) && fails(KernelCall::kSendmsg)) return -1;
  return NEXT(sendmsg)(socket, message, flags);
}

int setsockopt(int socket, int level, int option, const void* value, socklen_t size) noexcept {
  if (fails(KernelCall::kSetsockopt)) return -1;
  return NEXT(setsockopt)(socket, level, option, value, size);
}

int socketpair(int domain, int type, int protocol, int ends[2]) noexcept {
  if (fails(KernelCall::kSocketpair)) return -1;
  return NEXT(socketpair)(domain, type, protocol, ends);
}

ssize_t splice(int from, off64_t* begin, int to, off64_t* end, size_t size, unsigned flags) {
  const auto call = [&](size_t most) {
    return NEXT(splice)(from, begin, to, end, std::min(most, size), flags);
  };
  return fails(KernelCall::kSplice) ? shortened(call) : call(size);
}

long syscall(long number, ...) noexcept {
  va_list arguments;
  va_start(arguments, number);
  long all[6];
  for (long& argument : all) argument = va_arg(arguments, long);
  va_end(arguments);
  if (number == SYS_pidfd_open && fails(KernelCall::kPidfdOpen)) return -1;
  return NEXT(syscall)(number, all[0], all[1], all[2], all[3], all[4], all[5]);
}

int timerfd_settime(int fd, int flags, const itimerspec* time, itimerspec* before) noexcept {
  if (fails(KernelCall::kTimerfdSettime)) return -1;
  return NEXT(timerfd_settime)(fd, flags, time, before);
}

ssize_t write(int fd, const void* bytes, size_t size) {
  const auto call = [&](size_t most) { return NEXT(write)(fd, bytes, std::min(most, size)); };
  return is_regular(fd) && fails(KernelCall::kWrite) ? shortened(call) : call(size);
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)

}  // extern "C"
#pragma GCC visibility pop
