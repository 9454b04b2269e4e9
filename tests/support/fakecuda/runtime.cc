#include "tests/support/fakecuda/runtime.h"

#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>

#include "tests/support/fakecuda/device.h"
#include "tests/support/fakecuda/stream.h"

namespace fakecuda {
namespace {

enum class Phase { kRunning, kForked, kEnded };
// Read before anything else: in a forked child no lock may be touched.
std::atomic<Phase> phase = Phase::kRunning;
std::atomic<Runtime*> running_one = nullptr;
std::atomic<u64> epochs = 0;
std::atomic<u64> threads = 0;
// Their addresses are the primary contexts' handles.
std::array<char, kMaxDevices> primary_handles;

std::mutex& attach_mutex() {
  static auto& mutex = *new std::mutex;
  return mutex;
}

// Of the file system that is /dev/shm here.
u64 shared_memory_folder() {
  struct stat status{};
  return stat("/dev/shm", &status) == 0 ? status.st_dev : 0;
}

}  // namespace

// Stops the workers before the process's statics go away.
struct AtExit {
  ~AtExit() { Runtime::at_exit(); }
};

cudaError_t Runtime::get(Runtime*& runtime) {
  switch (phase.load(std::memory_order_relaxed)) {
    case Phase::kForked:
      return cudaErrorInitializationError;
    case Phase::kEnded:
      return cudaErrorCudartUnloading;
    case Phase::kRunning:
      break;
  }
  runtime = running_one.load(std::memory_order_acquire);
  return runtime != nullptr ? cudaSuccess : attach(runtime);
}

Runtime* Runtime::running() {
  return phase.load(std::memory_order_relaxed) == Phase::kRunning ? running_one.load() : nullptr;
}

cudaError_t Runtime::attach(Runtime*& runtime) {
  const std::scoped_lock lock(attach_mutex());
  runtime = running_one;
  if (runtime != nullptr) return cudaSuccess;
  const char* folder = std::getenv("FAKECUDA_WORLD");
  if (folder == nullptr || *folder == '\0') return cudaErrorInsufficientDriver;
  try {
    runtime = new Runtime(World::open(folder));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fakecuda: %s\n", error.what());
    return cudaErrorInsufficientDriver;
  }
  static const int once = pthread_atfork(nullptr, nullptr, [] {
    if (running_one != nullptr) phase = Phase::kForked;
  });
  static_cast<void>(once);
  static const AtExit at_exit_object;
  running_one.store(runtime, std::memory_order_release);
  return cudaSuccess;
}

void Runtime::detach() {
  const std::scoped_lock lock(attach_mutex());
  Runtime* runtime = running_one;
  if (phase != Phase::kRunning || runtime == nullptr) return;
  // Before it is nobody's: a host function may be on its way to it.
  runtime->stop();
  running_one = nullptr;
  delete runtime;
}

// Other threads may still be in a call, so nothing is deleted.
void Runtime::at_exit() {
  const std::scoped_lock lock(attach_mutex());
  if (phase != Phase::kRunning) return;
  if (Runtime* runtime = running_one; runtime != nullptr) runtime->stop();
  phase = Phase::kEnded;
}

Runtime::Runtime(std::unique_ptr<World> world)
    : world_(std::move(world)), process_(enter_world()), epoch_(++epochs) {
  host_agent_ = world_->new_agent(process_, AgentKind::kHost, 0, 0);
  int ordinal = 0;
  for (const u32 device : visible_devices(world_->layout())) {
    contexts_.push_back(std::make_unique<Context>(*this, device, ordinal++, true));
  }
}

Runtime::~Runtime() = default;

void Runtime::stop() {
  stopping_ = true;
  for (auto& context : contexts_) context->stop();
  {
    const std::scoped_lock lock(made_mutex_);
    for (auto& context : made_) context->stop();
  }
  streams.clear();
  events.destroy_all(*this);
  memory.clear();
  process().state = Process::kEnded;
}

u32 Runtime::enter_world() {
  Layout& layout = world_->layout();
  for (u32 i = 0; i < kMaxProcesses; ++i) {
    Process& entry = layout.processes[i];
    u32 state = Process::kFree;
    if (!entry.state.compare_exchange_strong(state, Process::kMaking)) continue;
    entry.pid = static_cast<u32>(getpid());
    entry.start_time = start_time(entry.pid);
    entry.pid_namespace = pid_namespace();
    entry.shm = shared_memory_folder();
    std::ifstream("/proc/self/comm")
        .getline(entry.name.data(), static_cast<std::streamsize>(entry.name.size()));
    entry.state = Process::kLive;
    return i;
  }
  throw std::runtime_error("the world has no place for another process");
}

u32 Runtime::host_agent() {
  if (knob(Knob::kThreadsApart) == 0) return host_agent_;
  ThreadState& thread = this_thread();
  if (thread.agent == 0) {
    const auto id = static_cast<u64>(syscall(SYS_gettid));
    thread.agent = world_->new_agent(process_, AgentKind::kHost, 0, id);
  }
  return thread.agent;
}

u32 Runtime::name(const std::string& text) {
  const std::scoped_lock lock(names_mutex_);
  const auto [found, fresh] = names_.try_emplace(text, 0);
  if (fresh) found->second = world_->keep_name(text);
  return found->second;
}

int Runtime::ordinal_of(u32 device) const {
  for (const auto& context : contexts_) {
    if (context->device == device) return context->ordinal;
  }
  return -1;
}

Context& Runtime::make_context(int ordinal) {
  const std::scoped_lock lock(made_mutex_);
  made_.push_back(std::make_unique<Context>(*this, primary(ordinal).device, ordinal, false));
  made_.back()->use();
  return *made_.back();
}

Context* Runtime::context_of(CUcontext handle) const {
  for (const auto& context : contexts_) {
    if (handle_of(context.get()) == handle) return context.get();
  }
  const std::scoped_lock lock(made_mutex_);
  for (const auto& context : made_) {
    if (handle_of(context.get()) == handle) return context.get();
  }
  return nullptr;
}

CUcontext Runtime::handle_of(const Context* context) {
  if (context == nullptr) return nullptr;
  const void* const handle = context->primary
                                 ? &primary_handles[static_cast<std::size_t>(context->ordinal)]
                                 : static_cast<const void*>(context);
  return static_cast<CUcontext>(const_cast<void*>(handle));
}

cudaError_t Runtime::current(Context*& context) {
  ThreadState& thread = this_thread();
  if (contexts_.empty()) return cudaErrorNoDevice;
  if (thread.current.empty()) thread.current.push_back(nullptr);
  if (thread.current.back() == nullptr) thread.current.back() = &primary(thread.ordinal);
  context = thread.current.back();
  if (!context->primary && !context->exists()) return cudaErrorContextIsDestroyed;
  context->use();
  return cudaSuccess;
}

cudaError_t Runtime::find(cudaStream_t handle, bool per_thread, std::shared_ptr<Stream>& stream) {
  if (handle != nullptr && handle != cudaStreamLegacy && handle != cudaStreamPerThread) {
    stream = streams.find(handle);
    return stream != nullptr ? cudaSuccess : stale_stream(*this);
  }
  Context* context = nullptr;
  if (const cudaError_t error = current(context); error != cudaSuccess) return error;
  const bool of_thread = handle == cudaStreamPerThread || (handle == nullptr && per_thread);
  stream = of_thread ? context->thread_stream() : context->legacy_stream();
  return cudaSuccess;
}

ThreadState& this_thread() {
  thread_local ThreadState state;
  const Runtime* runtime = Runtime::running();
  const u64 epoch = runtime == nullptr ? 0 : runtime->epoch();
  if (state.epoch != epoch) {
    state.epoch = epoch;
    state.ordinal = 0;
    state.current.clear();
    state.agent = 0;
    state.streams.clear();
    state.capture_mode = cudaStreamCaptureModeGlobal;
    // What failed before there was a runtime is still the last error.
  }
  return state;
}

ThreadState::ThreadState() : number(++threads) {}

ThreadState::~ThreadState() {
  // A stream's own thread has none, and must not wait here for who waits for its end.
  if (streams.empty() || phase.load(std::memory_order_relaxed) != Phase::kRunning) return;
  const std::scoped_lock lock(attach_mutex());
  const Runtime* runtime = running_one;
  if (runtime == nullptr || runtime->epoch() != epoch) return;
  for (auto& [context, stream] : streams) context->retire(stream);
}

}  // namespace fakecuda
