#include "client/rpc/poll_set.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "grpc/grpc.h"

namespace memlease::internal {
namespace {

// Does the address belong to the library that grpc_init() comes from?
bool is_grpcs(std::uint64_t address) {
  Dl_info library{};
  Dl_info owner{};
  return dladdr(reinterpret_cast<void*>(&grpc_init), &library) != 0 &&
         // NOLINTNEXTLINE(performance-no-int-to-ptr): it is asked about, not followed
         dladdr(reinterpret_cast<void*>(address), &owner) != 0 &&
         library.dli_fbase == owner.dli_fbase;
}

struct Entry {
  int fd = -1;
  unsigned events = 0;
  unsigned long long data = 0;
};

// The only entry of the epoll set `fd`, if it is one with one entry.
bool only_entry(const std::string& fd, Entry& entry) {
  std::ifstream info("/proc/self/fdinfo/" + fd);
  int entries = 0;
  for (std::string line; std::getline(info, line);) {
    entries += std::sscanf(line.c_str(), "tfd: %d events: %x data: %llx", &entry.fd, &entry.events,
                           &entry.data) == 3
                   ? 1
                   : 0;
  }
  return entries == 1;
}

// Lets a file have the number `wanted`, unless another one has it. False if it has not got it.
bool take_number(int fd, int wanted) {
  if (fd < 0 || fd == wanted) return fd == wanted;
  const int got = fcntl(fd, F_DUPFD_CLOEXEC, wanted);
  close(fd);
  if (got >= 0 && got != wanted) close(got);
  return got == wanted;
}

}  // namespace

bool PollSet::find() {
  DIR* const directory = opendir("/proc/self/fdinfo");
  if (directory == nullptr) return false;
  while (const dirent* file = readdir(directory)) {
    Entry entry;
    // The data of gRPC's entry is the address of a variable of gRPC.
    if (!only_entry(file->d_name, entry) || !is_grpcs(entry.data)) continue;
    epoll_ = std::atoi(file->d_name);
    event_ = entry.fd;
    events_ = entry.events;
    data_ = entry.data;
  }
  closedir(directory);
  return epoll_ >= 0;
}

bool PollSet::renew() const {
  if (epoll_ < 0) return false;
  close(epoll_);
  close(event_);
  return make();
}

bool PollSet::make() const {
  if (!take_number(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), event_)) return false;
  epoll_event wake{};
  wake.events = events_;
  wake.data.u64 = data_;
  const bool has_epoll = take_number(epoll_create1(EPOLL_CLOEXEC), epoll_);
  if (has_epoll && epoll_ctl(epoll_, EPOLL_CTL_ADD, event_, &wake) == 0) return true;
  if (has_epoll) close(epoll_);
  close(event_);
  return false;
}

bool PollSet::whole() const {
  epoll_event wake{};
  wake.events = events_;
  wake.data.u64 = data_;
  return epoll_ < 0 || epoll_ctl(epoll_, EPOLL_CTL_MOD, event_, &wake) == 0;
}

}  // namespace memlease::internal
