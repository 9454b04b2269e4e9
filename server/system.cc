#include "server/system.h"

#include <dlfcn.h>
#include <linux/prctl.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>

#include "wire/process_stat.h"

namespace memlease::server {
namespace {

template <typename TimePoint>
std::uint64_t ms_of(TimePoint now) {
  const auto since = now.time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(since).count());
}

// For one of those who ask at once, and not again before the pause is over.
bool is_due(std::atomic<std::chrono::steady_clock::time_point>& last,
            std::chrono::milliseconds pause) {
  const auto now = std::chrono::steady_clock::now();
  auto before = last.load();
  return now >= before + pause && last.compare_exchange_strong(before, now);
}

// Not where a sanitizer, or a library that was preloaded, is malloc(): malloc_trim() looks at a
// heap then that has never been begun, and ends the process.
bool glibc_has_the_heap() {
  static const bool has = [] {
    void* const libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    return libc != nullptr && dlsym(RTLD_DEFAULT, "malloc") == dlsym(libc, "malloc");
  }();
  return has;
}

}  // namespace

std::uint64_t SystemClock::unix_ms() const { return ms_of(std::chrono::system_clock::now()); }

std::uint64_t SystemClock::monotonic_ms() const { return ms_of(std::chrono::steady_clock::now()); }

void fill_random(std::span<std::uint8_t> bytes) {
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) std::abort();
}

wire::Incarnation new_incarnation() {
  wire::Incarnation incarnation{};
  fill_random({reinterpret_cast<std::uint8_t*>(incarnation.data()), incarnation.size()});
  return incarnation;
}

// All else stays what it is: proc(5), "/proc/pid/stat".
bool hide_command_line() {
  const auto stat = wire::ProcessStat::of(0);
  if (!stat) return false;
  prctl_mm_map map{};
  map.start_code = stat->field(26);
  map.end_code = stat->field(27);
  map.start_stack = stat->field(28);
  map.start_data = stat->field(45);
  map.end_data = stat->field(46);
  map.start_brk = stat->field(47);
  map.brk = reinterpret_cast<std::uintptr_t>(sbrk(0));
  map.arg_start = map.arg_end = stat->field(48);
  map.env_start = stat->field(50);
  map.env_end = stat->field(51);
  map.exe_fd = static_cast<std::uint32_t>(-1);
  return prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0) == 0;
}

std::uint64_t descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 0;
  return limit.rlim_cur;
}

wire::MemoryBound memory_room(std::uint64_t wanted_bytes, const wire::PromisedBytes& promised,
                              wire::ReserveKept kept) {
  const wire::MemoryBound room = wire::memory_room(::getpid(), wanted_bytes, promised, kept);
  if (room.bytes >= wanted_bytes) return room;
  static std::atomic<std::chrono::steady_clock::time_point> last{};
  if (!is_due(last, std::chrono::seconds(1))) return room;
  give_back_heap();
  return wire::memory_room(::getpid(), wanted_bytes, promised, kept);
}

wire::ReserveLeft reserve_left(std::chrono::milliseconds ago) {
  static std::atomic<std::chrono::steady_clock::time_point> last{};
  static std::atomic<wire::ReserveLeft> left{wire::ReserveLeft::kHalf};
  if (is_due(last, ago)) left = wire::reserve_left(::getpid());
  return left;
}

void give_back_heap() {
  if (glibc_has_the_heap()) malloc_trim(0);
}

}  // namespace memlease::server
