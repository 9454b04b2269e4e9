#include "tests/support/fakecuda/context.h"

#include <algorithm>

#include "tests/support/fakecuda/runtime.h"

namespace fakecuda {

Context::Context(Runtime& its_runtime, u32 its_device, int its_ordinal, bool is_primary)
    : runtime(its_runtime), device(its_device), ordinal(its_ordinal), primary(is_primary) {}

Context::~Context() = default;

void Context::use() {
  used_ = true;
  if (!exists_.exchange(true)) ++runtime.process().contexts[device];
}

void Context::retain() {
  const std::scoped_lock lock(mutex_);
  ++retained_;
  if (!exists_.exchange(true)) ++runtime.process().contexts[device];
}

bool Context::release() {
  const std::scoped_lock lock(mutex_);
  if (retained_ == 0) return false;
  if (--retained_ == 0 && !used_) exists_ = false;
  return true;
}

void Context::destroy() {
  stop();
  exists_ = false;
}

void Context::break_with(cudaError_t error) {
  cudaError_t none = cudaSuccess;
  broken_.compare_exchange_strong(none, error);
}

bool Context::reaches(const Mapping& mapping) const {
  if (mapping.kind != Mapping::Kind::kAllocated || mapping.device == device) return true;
  const std::scoped_lock lock(mutex_);
  return peers_.count(mapping.device) != 0;
}

cudaError_t Context::enable_peer(u32 peer) {
  if (runtime.knob(Knob::kPeerAccess) == 0) return cudaErrorPeerAccessUnsupported;
  if (peer == device) return cudaErrorInvalidDevice;
  const std::scoped_lock lock(mutex_);
  return peers_.insert(peer).second ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
}

cudaError_t Context::disable_peer(u32 peer) {
  const std::scoped_lock lock(mutex_);
  return peers_.erase(peer) != 0 ? cudaSuccess : cudaErrorPeerAccessNotEnabled;
}

std::shared_ptr<Stream> Context::start(AgentKind kind, unsigned flags, int priority) {
  auto stream = Stream::start(*this, kind, flags, priority);
  streams_.push_back(stream);
  return stream;
}

std::shared_ptr<Stream> Context::new_stream(unsigned flags, int priority) {
  const std::scoped_lock lock(order_mutex);
  drop_ended();
  return start(AgentKind::kStream, flags, std::clamp(priority, kGreatestPriority, kLeastPriority));
}

std::shared_ptr<Stream> Context::legacy_stream() {
  const std::scoped_lock lock(order_mutex);
  if (legacy_ == nullptr) legacy_ = start(AgentKind::kLegacyStream, 0, 0);
  return legacy_;
}

std::shared_ptr<Stream> Context::thread_stream() {
  auto& stream = this_thread().streams[this];
  if (stream == nullptr) {
    const std::scoped_lock lock(order_mutex);
    stream = start(AgentKind::kPerThreadStream, 0, 0);
  }
  return stream;
}

void Context::retire(const std::shared_ptr<Stream>& stream) {
  runtime.captures.forget(*stream);
  const std::scoped_lock lock(order_mutex);
  if (const MarkerPtr marker = stream->mark_locked(); marker != nullptr) {
    leftovers_.push_back(marker);
  }
  stream->close();
  std::erase(streams_, stream);
  retired_.push_back(stream);
  drop_ended();
}

void Context::drop_ended() {
  std::erase_if(retired_, [](const auto& stream) { return stream->ended(); });
}

bool Context::captures_implicitly(const Stream& stream) const {
  return stream.kind == AgentKind::kLegacyStream && runtime.captures.any([&](const Stream& other) {
    return &other.context == this && other.blocking;
  });
}

cudaError_t Context::order(Stream& stream) {
  if (!stream.blocking) return cudaSuccess;
  if (&stream != legacy_.get()) {
    if (legacy_ != nullptr) stream.await(legacy_->mark_locked());
    return cudaSuccess;
  }
  const cudaError_t refused = runtime.captures.refuse(
      [&](const Stream& other) { return &other.context == this && other.blocking; },
      cudaErrorStreamCaptureImplicit);
  if (refused != cudaSuccess) return refused;
  for (const auto& other : streams_) {
    if (other->blocking && other != legacy_) stream.await(other->mark_locked());
  }
  // From here on the legacy stream's own marker stands for them.
  std::erase_if(leftovers_, [&](const MarkerPtr& marker) {
    if (marker->blocking) stream.await(marker);
    return marker->blocking;
  });
  return cudaSuccess;
}

cudaError_t Context::synchronize() {
  const cudaError_t refused =
      runtime.captures.refuse([&](const Stream& stream) { return &stream.context == this; },
                              cudaErrorStreamCaptureUnsupported);
  return refused == cudaSuccess ? wait_for_all() : refused;
}

cudaError_t Context::wait_for_all() {
  std::vector<MarkerPtr> markers;
  {
    const std::scoped_lock lock(order_mutex);
    markers.swap(leftovers_);
    for (const auto& stream : streams_) markers.push_back(stream->mark_locked());
  }
  for (const MarkerPtr& marker : markers) {
    if (const cudaError_t error = host_wait_marker(marker); error != cudaSuccess) return error;
  }
  return broken();
}

cudaError_t Context::wait_to_close() {
  if (runtime.knob(Knob::kClosesWait) == 0) return cudaSuccess;
  std::vector<MarkerPtr> markers;
  {
    const std::scoped_lock lock(order_mutex);
    markers = leftovers_;
    for (const auto& stream : streams_) markers.push_back(stream->mark_locked());
  }
  for (const MarkerPtr& marker : markers) {
    if (marker != nullptr) marker->wait();
  }
  return runtime.stopping() ? cudaErrorCudartUnloading : broken();
}

cudaError_t Context::host_wait_marker(const MarkerPtr& marker) {
  if (marker != nullptr && marker->wait() == Marker::State::kReached) {
    runtime.trace(Kind::kAcquire, static_cast<u64>(KeyKind::kMark), marker->id);
  }
  return runtime.stopping() ? cudaErrorCudartUnloading : broken();
}

void Context::stop() {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    const std::scoped_lock lock(order_mutex);
    streams.swap(streams_);
    streams.insert(streams.end(), retired_.begin(), retired_.end());
    retired_.clear();
    leftovers_.clear();
    legacy_.reset();
  }
  // One may wait for another, so all drop their queues before any is joined. A thread may hold its
  // own one longer than we live, so its end is not left to the last reference.
  for (const auto& stream : streams) stream->close();
  for (const auto& stream : streams) stream->join();
}

}  // namespace fakecuda
