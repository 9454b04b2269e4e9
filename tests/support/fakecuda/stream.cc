#include "tests/support/fakecuda/stream.h"

#include <chrono>
#include <csignal>
#include <cstdio>

#include "tests/support/fakecuda/context.h"
#include "tests/support/fakecuda/runtime.h"

namespace fakecuda {
namespace {

class MarkOperation : public Operation {
 public:
  explicit MarkOperation(MarkerPtr marker) : Operation(""), marker_(std::move(marker)) {}
  ~MarkOperation() override { marker_->become(Marker::State::kDropped); }
  void run(Stream& stream) override {
    stream.trace(Kind::kRelease, static_cast<u64>(KeyKind::kMark), marker_->id);
    marker_->become(Marker::State::kReached);
  }

 private:
  const MarkerPtr marker_;
};

class AwaitOperation : public Operation {
 public:
  explicit AwaitOperation(MarkerPtr marker) : Operation(""), marker_(std::move(marker)) {}
  void run(Stream& stream) override {
    if (marker_->wait() == Marker::State::kReached) {
      stream.trace(Kind::kAcquire, static_cast<u64>(KeyKind::kMark), marker_->id);
    }
  }

 private:
  const MarkerPtr marker_;
};

std::atomic<u64> numbers = 0;
thread_local const Stream* this_stream = nullptr;

}  // namespace

void Marker::become(State state) {
  const std::scoped_lock lock(mutex_);
  if (state_ != State::kPending) return;
  state_ = state;
  changed_.notify_all();
}

Marker::State Marker::state() const {
  const std::scoped_lock lock(mutex_);
  return state_;
}

Marker::State Marker::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return state_ != State::kPending; });
  return state_;
}

std::shared_ptr<Stream> Stream::start(Context& context, AgentKind kind, unsigned flags,
                                      int priority) {
  std::shared_ptr<Stream> stream(new Stream(context, kind, flags, priority));
  stream->thread_ = std::thread([raw = stream.get()] { raw->work(); });
  return stream;
}

Stream::Stream(Context& its_context, AgentKind its_kind, unsigned its_flags, int its_priority)
    : context(its_context),
      kind(its_kind),
      flags(its_flags),
      priority(its_priority),
      number(++numbers),
      agent(its_context.runtime.world().new_agent(its_context.runtime.process_index(), its_kind,
                                                  its_context.device, number)),
      blocking(its_kind != AgentKind::kStream || (its_flags & cudaStreamNonBlocking) == 0),
      runtime_(its_context.runtime),
      random_(agent * 0x9e37'79b9'7f4a'7c15) {}

Stream::~Stream() { join(); }

void Stream::join() {
  close();
  if (thread_.joinable()) thread_.join();
}

cudaError_t Stream::enqueue(std::unique_ptr<Operation> operation) {
  const std::scoped_lock lock(context.order_mutex);
  if (capturing) return cudaErrorStreamCaptureUnsupported;
  if (const cudaError_t error = context.order(*this); error != cudaSuccess) return error;
  operation->id_ = runtime_.world().new_id();
  runtime_.trace(Kind::kEnqueue, operation->id_, runtime_.name(operation->name()));
  push(std::move(operation));
  return cudaSuccess;
}

void Stream::push(std::unique_ptr<Operation> operation) {
  const std::scoped_lock lock(mutex_);
  dirty_ = true;
  queue_.push_back(std::move(operation));
  wake_.notify_one();
}

cudaError_t Stream::mark(MarkerPtr& marker) {
  const std::scoped_lock lock(context.order_mutex);
  if (kind == AgentKind::kLegacyStream) {
    if (const cudaError_t error = context.order(*this); error != cudaSuccess) return error;
  }
  marker = mark_locked();
  return cudaSuccess;
}

MarkerPtr Stream::mark_locked() {
  const std::scoped_lock lock(mutex_);
  if (dirty_) {
    dirty_ = false;
    mark_ = std::make_shared<Marker>(runtime_.world().new_id(), agent, blocking);
    queue_.push_back(std::make_unique<MarkOperation>(mark_));
    wake_.notify_one();
  }
  return mark_;
}

void Stream::await(const MarkerPtr& marker) {
  if (marker == nullptr) return;
  u64& awaited = awaited_[marker->agent];
  if (awaited == marker->id) return;
  awaited = marker->id;
  push(std::make_unique<AwaitOperation>(marker));
}

cudaError_t Stream::refuse_capture() {
  return runtime_.captures.refuse([&](const Stream& it) { return &it == this; },
                                  cudaErrorStreamCaptureUnsupported);
}

cudaError_t Stream::synchronize() {
  MarkerPtr marker;
  cudaError_t error = refuse_capture();
  if (error == cudaSuccess) error = mark(marker);
  return error == cudaSuccess ? context.host_wait_marker(marker) : error;
}

cudaError_t Stream::query() {
  MarkerPtr marker;
  cudaError_t error = refuse_capture();
  if (error == cudaSuccess) error = mark(marker);
  if (error != cudaSuccess) return error;
  if (marker != nullptr && marker->state() == Marker::State::kPending) return cudaErrorNotReady;
  return context.host_wait_marker(marker);
}

void Stream::drain() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return queue_.empty() && !busy_; });
}

void Stream::close() {
  const std::scoped_lock lock(mutex_);
  closing_ = true;
  wake_.notify_all();
}

bool Stream::ended() const {
  const std::scoped_lock lock(mutex_);
  return ended_;
}

char* Stream::access(const void* address, std::size_t bytes, Access access, MappingPtr& keep) {
  keep = runtime_.memory.find(address);
  const auto offset = reinterpret_cast<std::uintptr_t>(address) - (keep ? keep->base : 0);
  if (keep == nullptr || bytes > keep->bytes - offset || !context.reaches(*keep)) {
    throw DeviceFault{cudaErrorIllegalAddress};
  }
  if (writes(access) && keep->read_only()) throw DeviceFault{cudaErrorIllegalAddress};
  const u64 at = keep->offset + offset;
  if (reads(access)) trace(Kind::kAccess, keep->allocation, at, bytes);
  if (writes(access)) trace(Kind::kAccess, keep->allocation, at | kWriteBit, bytes);
  return keep->alias(writes(access)) + offset;
}

void Stream::trace(Kind what, u64 a, u64 b, u64 c) {
  runtime_.world().append(what, agent, a, b, c);
}

bool Stream::cancelled() const { return runtime_.stopping() || context.broken() != cudaSuccess; }

void Stream::pause_us(u64 us) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(us);
  std::unique_lock lock(mutex_);
  while (!cancelled() && std::chrono::steady_clock::now() < end) wake_.wait_until(lock, end);
}

const Stream* Stream::of_this_thread() { return this_stream; }

void Stream::work() {
  this_stream = this;
  for (;;) {
    std::unique_ptr<Operation> operation;
    {
      std::unique_lock lock(mutex_);
      busy_ = false;
      if (queue_.empty()) idle_.notify_all();
      wake_.wait(lock, [this] { return !queue_.empty() || closing_; });
      if (queue_.empty()) {
        ended_ = true;
        return;
      }
      busy_ = true;
      operation = std::move(queue_.front());
      queue_.pop_front();
    }
    run(*operation);
  }
}

void Stream::run(Operation& operation) {
  if (const u32 delay = runtime_.knob(Knob::kDelayUs); delay != 0) {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    pause_us(random_ % delay);
  }
  if (cancelled()) return;
  try {
    if (operation.id_ != 0) trace(Kind::kExecute, operation.id_);
    operation.run(*this);
  } catch (const DeviceFault& fault) {
    context.break_with(fault.error);
  }
}

cudaStream_t StreamTable::add(std::shared_ptr<Stream> stream) {
  const auto handle = reinterpret_cast<cudaStream_t>(stream.get());
  const std::unique_lock lock(mutex_);
  streams_[handle] = std::move(stream);
  return handle;
}

std::shared_ptr<Stream> StreamTable::find(cudaStream_t handle) const {
  const std::shared_lock lock(mutex_);
  const auto found = streams_.find(handle);
  return found == streams_.end() ? nullptr : found->second;
}

std::shared_ptr<Stream> StreamTable::remove(cudaStream_t handle) {
  const std::unique_lock lock(mutex_);
  const auto found = streams_.find(handle);
  if (found == streams_.end()) return nullptr;
  auto stream = std::move(found->second);
  streams_.erase(found);
  return stream;
}

void StreamTable::clear() {
  const std::unique_lock lock(mutex_);
  streams_.clear();
}

cudaError_t stale_stream(Runtime& runtime) {
  runtime.violation(Violation::kStreamUsedAfterDestroy);
  if (runtime.knob(Knob::kStaleStreamsRefused) == 0) {
    std::fputs("fakecuda: a stream was used that had been destroyed, or never made\n", stderr);
    std::signal(SIGSEGV, SIG_DFL);  // a sanitizer's would end the process in its own way
    std::raise(SIGSEGV);
  }
  return cudaErrorInvalidResourceHandle;
}

cudaError_t create_stream(Context& context, cudaStream_t* stream, unsigned flags, int priority) {
  if (stream == nullptr || (flags & ~unsigned{cudaStreamNonBlocking}) != 0) {
    return cudaErrorInvalidValue;
  }
  *stream = context.runtime.streams.add(context.new_stream(flags, priority));
  ++context.runtime.process().streams;
  return cudaSuccess;
}

cudaError_t destroy_stream(Runtime& runtime, cudaStream_t handle) {
  const auto stream = runtime.streams.remove(handle);
  if (stream == nullptr) return stale_stream(runtime);
  stream->context.retire(stream);
  --runtime.process().streams;
  return cudaSuccess;
}

cudaError_t priority_range(int* least, int* greatest) {
  if (least != nullptr) *least = kLeastPriority;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return cudaSuccess;
}

}  // namespace fakecuda
