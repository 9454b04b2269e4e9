// ReadLease: one process's hold on one version of an array. Standard library only, C++17.
#pragma once

#include <memlease/lease_parts.h>
#include <memlease/region.h>
#include <memlease/span.h>
#include <memlease/stream.h>
#include <memlease/version.h>
#include <memlease/view.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace memlease {

// A lease on one version, to read it. The bytes do not change while it lives. Movable, not
// copyable; one lease is used by one thread at a time, different leases by any threads at once.
class MEMLEASE_API ReadLease {
 public:
  ReadLease(ReadLease&&) noexcept;
  ReadLease& operator=(ReadLease&&) noexcept;
  ~ReadLease();  // release()

  std::uint64_t version() const;  // 1, 2, 3, ...
  std::uint32_t slot() const;
  // First element; throws Closed after release(). Of a device array it is device memory, and the
  // host waits here until the version is complete, unless a stream has been made to.
  const void* data() const MEMLEASE_LIFETIMEBOUND;
  [[nodiscard]] Pin pin() const;  // throws Closed after release()

  // Device arrays: what `stream` is given from now on runs behind the version. Does not wait,
  // unless the daemon lets the host wait (event_waits = host): then until the version is complete.
  // Throws InvalidArgument for a stream of another device, or one that captures a graph; in that
  // mode also Timeout and ProducerDied. The host's arrays need none of this.
  void wait(Stream stream) const;
  // The same for a view that is given away, whose user works on `consumer`: that does not say where
  // the work on the lease ends, which release() must be told. None: whoever gets the view sees to
  // the order, and data() does not wait for it any more.
  void wait_for_view(Stream consumer) const;
  // The stream for such a view if its user names none: the lease's own, or one of the library's
  // that waits for the version and lives as long as the process. Never 1 or 2. The same at each
  // call, and made to wait again. The end of the lease covers what it is given until then.
  Stream export_stream() const;
  // For those who need no stream: the host waits until the version is complete.
  void wait_on_host() const;

  // T and N must fit the array's dtype and number of dimensions, else InvalidArgument. Valid while
  // the lease is: not of a temporary one.
  template <typename T, std::size_t N>
  [[nodiscard]] Span<const T, N> span() const& MEMLEASE_LIFETIMEBOUND;
  template <typename T, std::size_t N>
  Span<const T, N> span() && = delete;  // auto lease = array.read(); first
  // Of a region, whose number of dimensions N is.
  template <typename T, std::size_t N>
  [[nodiscard]] Span<const T, N> span(const Region& region) const& MEMLEASE_LIFETIMEBOUND;
  template <typename T, std::size_t N>
  Span<const T, N> span(const Region& region) && = delete;  // auto lease = array.read(); first
  // The same, for loops: also throws InvalidArgument unless the array is in C order without gaps.
  template <typename T, std::size_t N>
  [[nodiscard]] View<const T, N> view() const& MEMLEASE_LIFETIMEBOUND;
  template <typename T, std::size_t N>
  View<const T, N> view() && = delete;  // auto lease = array.read(); first

  // Copies the version, or a region of it, into C-ordered host memory of exactly its elements. Of a
  // device array: waits for the copy.
  void get(void* destination, std::uint64_t size_bytes) const;
  void get(const Region& region, void* destination, std::uint64_t size_bytes) const;

  // Ends the lease. False if pins still keep the slot. No call to the daemon: where this was the
  // last lease of an array that has been closed or withdrawn, the process's next call says so. A
  // second call does nothing. Of a device array: a writer waits for what `stream` was given until
  // now; by default that is the stream that waited. If there was none, or more than one, this waits
  // for the device. Throws ProducerDied if the version's writer died before it was complete. After
  // an exception the lease has ended, too.
  bool release(Stream stream = {});
  bool released() const noexcept;

 private:
  friend class Array;
  friend class Follower;
  friend struct internal::ForBindings;
  ReadLease(internal::OpenArray& state, std::uint64_t version, std::uint32_t slot,
            std::uint64_t interrupt_check) noexcept;
  // Of a device array, behind `stream` if there is one.
  static ReadLease begin(internal::OpenArray& state, std::uint64_t version, std::uint32_t slot,
                         std::uint64_t interrupt_check, Stream stream);
  internal::OpenArray& live() const;
  void copy_to(std::byte* packed, const internal::ElementLayout& part, bool only_use) const;
  void end_device(Stream stream, bool may_throw);
  void end_quietly();
  internal::OpenArray* state_;  // lives as long as the slot is held; null once released
  const std::byte* data_ = nullptr;
  std::uint64_t version_ = 0;
  std::uint32_t slot_ = 0;
  mutable internal::LeaseStreams streams_;
  mutable std::weak_ptr<const void> pin_;
};

template <typename T, std::size_t N>
Span<const T, N> ReadLease::span() const& {
  return internal::make_span<const T, N>(static_cast<const T*>(data()), live());
}

template <typename T, std::size_t N>
Span<const T, N> ReadLease::span(const Region& region) const& {
  return internal::make_span<const T, N>(static_cast<const T*>(data()), live(), region);
}

template <typename T, std::size_t N>
View<const T, N> ReadLease::view() const& {
  return internal::make_view<const T, N>(static_cast<const T*>(data()), live());
}

}  // namespace memlease
