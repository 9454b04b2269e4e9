#include "tests/support/fakecuda/world.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace fakecuda {
namespace {

struct KnobEntry {
  const char* name;
  u32 initially;
};
constexpr std::array<KnobEntry, static_cast<std::size_t>(Knob::kCount)> kKnobs = {{
    {"driver_version", 13000},  // a line each, as the enum has them
    {"peer_access", 1},           {"ipc_events", 1},
    {"stream_memory_ops", 1},     {"read_only_register", 1},
    {"registered_in_place", 1},   {"cpu_store_wakes", 1},
    {"later_record_releases", 0}, {"records_queue", 0},
    {"waits_follow", 0},          {"not_ready_stays", 0},
    {"stale_handles_alias", 0},   {"pid_namespace_matters", 0},
    {"events_private", 0},        {"shm_matters", 0},
    {"events_outlive", 0},        {"close_loses_record", 0},
    {"stale_streams_refused", 0}, {"opens_wait", 0},
    {"closes_wait", 1},           {"exchange_ignored", 0},
    {"threads_apart", 0},         {"delay_us", 0},
}};

[[noreturn]] void fail_with(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

Layout* map(const std::string& folder, int flags) {
  const std::string path = folder + "/world";
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | flags, 0600);
  if (fd < 0) fail_with("opening the world " + path);
  if ((flags & O_CREAT) != 0 && ftruncate(fd, sizeof(Layout)) != 0) fail_with("sizing " + path);
  void* data =
      mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  close(fd);
  if (data == MAP_FAILED) fail_with("mapping the world " + path);
  return static_cast<Layout*>(data);
}

}  // namespace

std::unique_ptr<World> World::create(const std::string& folder, const WorldOptions& options) {
  if (options.devices > kMaxDevices) throw std::runtime_error("too many devices for a world");
  Layout* layout = map(folder, O_CREAT | O_EXCL);
  layout->magic = kMagic;
  layout->version = kLayoutVersion;
  layout->devices = options.devices;
  if (getrandom(&layout->id, sizeof layout->id, 0) < 0) fail_with("naming a world");
  for (std::size_t i = 0; i < kKnobs.size(); ++i) layout->knobs[i] = kKnobs[i].initially;
  for (u32 i = 0; i < options.devices; ++i) {
    Device& device = layout->device[i];
    if (getrandom(device.uuid.data(), device.uuid.size(), 0) < 0) fail_with("naming a device");
    device.capacity_bytes = options.capacity_bytes;
  }
  layout->names_used = 1;  // 0: no name
  return std::unique_ptr<World>(new World(folder, layout));
}

std::unique_ptr<World> World::open(const std::string& folder) {
  Layout* layout = map(folder, 0);
  if (layout->magic != kMagic || layout->version != kLayoutVersion) {
    munmap(layout, sizeof(Layout));
    throw std::runtime_error(folder + " holds no world of this version");
  }
  return std::unique_ptr<World>(new World(folder, layout));
}

World::~World() { munmap(layout_, sizeof(Layout)); }

u32 World::knob(Knob knob) const { return layout_->knobs[static_cast<std::size_t>(knob)]; }
void World::set(Knob knob, u32 value) { layout_->knobs[static_cast<std::size_t>(knob)] = value; }

Knob World::knob_named(std::string_view name) {
  for (std::size_t i = 0; i < kKnobs.size(); ++i) {
    if (name == kKnobs[i].name) return static_cast<Knob>(i);
  }
  throw std::runtime_error("no such knob: " + std::string(name));
}

u32 World::keep_name(std::string_view name) {
  const u32 size = static_cast<u32>(name.size()) + 1;
  const u32 offset = layout_->names_used.fetch_add(size);
  if (offset + size > kNameBytes) return 0;
  std::copy(name.begin(), name.end(), layout_->names.begin() + offset);
  return offset;
}

const char* World::name(u32 offset) const {
  return offset == 0 || offset >= kNameBytes ? "?" : layout_->names.data() + offset;
}

void World::append(Kind kind, u32 agent, u64 a, u64 b, u64 c) {
  const u64 index = layout_->records_used.fetch_add(1, std::memory_order_relaxed);
  if (index >= kMaxRecords) {
    std::fprintf(stderr, "fakecuda: the trace is full (%u records): use a world for each test\n",
                 kMaxRecords);
    std::abort();
  }
  Record& record = layout_->records[index];
  record.agent = agent;
  record.a = a;
  record.b = b;
  record.c = c;
  record.kind.store(kind, std::memory_order_release);
}

u32 World::new_agent(u32 process, AgentKind kind, u32 device, u64 number) {
  const u32 agent = layout_->next_agent.fetch_add(1) + 1;
  append(Kind::kAgent, agent, process, static_cast<u64>(kind) | u64{device} << 8, number);
  return agent;
}

u32 World::call_index(std::string_view name) {
  for (u32 i = 0; i < kMaxCalls; ++i) {
    CallName& entry = layout_->calls[i];
    u32 state = CallName::kFree;
    if (entry.state.compare_exchange_strong(state, CallName::kMaking)) {
      const std::size_t size = std::min(name.size(), entry.name.size() - 1);
      std::copy_n(name.begin(), size, entry.name.begin());
      entry.name[size] = '\0';
      entry.state = CallName::kLive;
      return i;
    }
    while (entry.state == CallName::kMaking) sched_yield();
    if (name == entry.name.data()) return i;
  }
  std::fprintf(stderr, "fakecuda: more than %u calls\n", kMaxCalls);
  std::abort();
}

u64 World::calls(std::string_view name, long pid) {
  const u32 call = call_index(name);
  u64 count = 0;
  for (const Process& process : layout_->processes) {
    if (process.state == Process::kFree) break;
    if (pid < 0 || process.pid == static_cast<u32>(pid)) count += process.calls[call];
  }
  return count;
}

void World::fail(std::string_view call, int error, int nth, int times, Fault::Mode mode, u32 pid) {
  for (Fault& fault : layout_->faults) {
    u32 state = Fault::kFree;
    if (!fault.state.compare_exchange_strong(state, Fault::kMaking)) continue;
    fault.call = call_index(call);
    fault.pid = pid;
    fault.mode = mode;
    fault.error = error;
    fault.skip = nth - 1;
    fault.times = times;
    fault.state = Fault::kLive;
    ++layout_->faults_in_use;
    return;
  }
  throw std::runtime_error("too many faults planned at once");
}

void World::never_fail() {
  for (Fault& fault : layout_->faults) {
    if (fault.state.exchange(Fault::kFree) == Fault::kLive) --layout_->faults_in_use;
  }
}

u32 World::contexts(long pid, u32 device) const {
  u32 count = 0;
  for (const Process& process : layout_->processes) {
    if (process.state == Process::kFree) break;
    if (process.pid == static_cast<u32>(pid)) count += process.contexts[device];
  }
  return count;
}

u32 World::contexts(long pid) const {
  u32 count = 0;
  for (u32 device = 0; device < layout_->devices; ++device) count += contexts(pid, device);
  return count;
}

bool World::gone(u32 process) const {
  const Process& entry = layout_->processes[process];
  if (entry.state == Process::kEnded) return true;
  // In another namespace the number is somebody else's: it counts as there.
  return entry.state == Process::kLive && entry.pid_namespace == pid_namespace() &&
         start_time(entry.pid) != entry.start_time;
}

std::string World::file_of(u64 allocation) const {
  return folder_ + "/memory-" + std::to_string(allocation);
}

u64 World::used_bytes(u32 device, bool reap_first) {
  u64 used = 0;
  for (Allocation& allocation : layout_->allocations) {
    const u32 state = allocation.state;
    if (state != Allocation::kLive && state != Allocation::kFreed) continue;
    if (allocation.device != device) continue;
    if (reap_first && reap(allocation)) continue;
    used += (allocation.size_bytes + kGranularity - 1) / kGranularity * kGranularity;
  }
  return used;
}

// Every process that has the file mapped holds a shared lock on it, which its end drops.
bool World::reap(Allocation& allocation) {
  u32 state = allocation.state;
  const bool left =
      state == Allocation::kFreed || (state == Allocation::kLive && gone(allocation.owner));
  if (!left) return false;
  const std::string path = file_of(allocation.id);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  const bool unused = fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0;
  bool reaped = false;
  if (unused && allocation.state.compare_exchange_strong(state, Allocation::kMaking)) {
    unlink(path.c_str());
    allocation.state = Allocation::kFree;
    reaped = true;
  }
  if (fd >= 0) close(fd);
  return reaped;
}

Turn::Turn(const World& world)
    : fd_(::open((world.folder() + "/turn").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
  while (flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

Turn::~Turn() { close(fd_); }

u64 pid_namespace() {
  struct stat status{};
  return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

u64 start_time(u32 pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return 0;
  // The program's name stands in parentheses and may hold anything; field 22 is the start.
  std::istringstream rest(line.substr(line.rfind(')') + 2));
  std::string state;
  u64 field = 0;
  rest >> state;
  if (state == "Z" || state == "X") return 0;
  for (int i = 4; i <= 22; ++i) rest >> field;
  return field;
}

}  // namespace fakecuda
