#include "wire/grpc/thread_reserve.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "wire/error.h"
#include "wire/mutex.h"

namespace memlease::wire {
namespace {

constexpr std::size_t kStack = std::size_t{2} << 20;    // far more than gRPC's threads use
constexpr std::size_t kMemory = std::size_t{16} << 20;  // without some, abseil ends the process

struct Spare {
  wire::Mutex mutex;
  wire::CondVar changed;
  bool go ABSL_GUARDED_BY(mutex) = false;
  void* (*run)(void*)ABSL_GUARDED_BY(mutex) = nullptr;  // none: end
  void* argument ABSL_GUARDED_BY(mutex) = nullptr;
  pthread_t thread{};
};

struct Reserve {
  wire::Mutex mutex;
  std::vector<std::unique_ptr<Spare>> spares ABSL_GUARDED_BY(mutex);
};

std::atomic<bool> in_use{false};

// Never destroyed: gRPC's threads may be the last of a process.
Reserve& reserve() {
  static Reserve* const the_reserve = new Reserve;
  return *the_reserve;
}

void* stand_by(void* its) {
  const std::unique_ptr<Spare> spare(static_cast<Spare*>(its));
  void* (*run)(void*) = nullptr;
  void* argument = nullptr;
  {
    const wire::MutexLock lock(spare->mutex);
    while (!spare->go) spare->changed.wait(spare->mutex);
    run = spare->run;
    argument = spare->argument;
  }
  return run == nullptr ? nullptr : run(argument);
}

// The thread destroys it.
void let_go(std::unique_ptr<Spare> spare, void* (*run)(void*), void* argument) {
  Spare& its = *spare.release();
  const wire::MutexLock lock(its.mutex);
  its.run = run;
  its.argument = argument;
  its.go = true;
  its.changed.notify_one();
}

void end_all(std::vector<std::unique_ptr<Spare>> spares) {
  for (std::unique_ptr<Spare>& spare : spares) {
    const pthread_t thread = spare->thread;
    let_go(std::move(spare), nullptr, nullptr);
    pthread_join(thread, nullptr);
  }
}

int make(Spare& spare) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStack);
  int error = pthread_create(&spare.thread, &attributes, stand_by, &spare);
  pthread_attr_destroy(&attributes);
  // A program may have more thread-local variables than fit there.
  if (error == EINVAL) error = pthread_create(&spare.thread, nullptr, stand_by, &spare);
  return error;
}

// gRPC makes one for each processor, and nine to fifteen in all were seen where there are two.
std::size_t threads_of_grpc() {
  return 14 + static_cast<std::size_t>(std::clamp(::sysconf(_SC_NPROCESSORS_CONF), 2L, 32L));
}

}  // namespace

absl::Status reserve_threads(std::string_view purpose) {
  release_reserved_threads();  // else these would be taken for the new ones
  const auto no_memory = [purpose] {
    return make_error(ErrorCode::kOutOfMemory,
                      fmt::format("this process gets no memory {}", purpose),
                      "Free memory in it, or raise its limit (ulimit -v).");
  };
  if (!has_memory_for_grpc()) return no_memory();
  std::vector<std::unique_ptr<Spare>> spares;
  int error = 0;
  for (const std::size_t count = threads_of_grpc(); spares.size() < count;) {
    auto spare = std::make_unique<Spare>();
    error = make(*spare);
    if (error != 0) break;
    spares.push_back(std::move(spare));
  }
  if (error != 0) {
    end_all(std::move(spares));
    return errno_error(ErrorCode::kOutOfMemory,
                       fmt::format("this process gets no threads {}", purpose), error,
                       "End other processes of this user, or raise the limit: of threads (ulimit "
                       "-u; TasksMax= of a service, pids.max of a container) or of memory for "
                       "their stacks (ulimit -v).");
  }
  if (!has_memory_for_grpc()) {
    end_all(std::move(spares));
    return no_memory();
  }
  if (!in_use) {
    end_all(std::move(spares));
    return absl::OkStatus();
  }
  Reserve& all = reserve();
  const wire::MutexLock lock(all.mutex);
  all.spares = std::move(spares);
  return absl::OkStatus();
}

void release_reserved_threads() {
  std::vector<std::unique_ptr<Spare>> spares;
  Reserve& all = reserve();
  {
    const wire::MutexLock lock(all.mutex);
    spares.swap(all.spares);
  }
  end_all(std::move(spares));
}

bool take_reserved_thread(pthread_t& thread, bool detached, void* (*run)(void*), void* argument) {
  std::unique_ptr<Spare> spare;
  Reserve& all = reserve();
  {
    const wire::MutexLock lock(all.mutex);
    if (all.spares.empty()) return false;
    spare = std::move(all.spares.back());
    all.spares.pop_back();
  }
  thread = spare->thread;
  if (detached) pthread_detach(thread);
  let_go(std::move(spare), run, argument);
  return true;
}

bool has_memory_for_grpc() {
  void* tried = ::mmap(nullptr, kMemory, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return tried != MAP_FAILED && ::munmap(tried, kMemory) == 0;
}

bool use_reserved_threads() { return in_use = true; }

}  // namespace memlease::wire
