// Leases: one process's hold on one version of an array. Standard library only, C++17.
#pragma once

#include <memlease/dtype.h>
#include <memlease/region.h>
#include <memlease/span.h>
#include <memlease/stream.h>
#include <memlease/version.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

namespace memlease {

namespace internal {
class OpenArray;
struct ForBindings;
// Throws InvalidArgument unless T and N fit the array.
MEMLEASE_API void check_view(const OpenArray& array, DType dtype, std::size_t ndim);
// Throws InvalidArgument: the array has gaps, or another order than C's.
[[noreturn]] MEMLEASE_API void throw_not_contiguous(const OpenArray& array);
// Of a region. Throws InvalidArgument unless it fits the array, and T and N fit the region.
MEMLEASE_API ElementLayout layout_of_view(const OpenArray& array, const Region& region, DType dtype,
                                          std::size_t ndim);
MEMLEASE_API const std::vector<std::int64_t>& shape_of(const OpenArray& array);
MEMLEASE_API const std::vector<std::int64_t>& strides_bytes_of(const OpenArray& array);
}  // namespace internal

namespace internal {
// What a lease of a device array has been ordered with so far, and whose interrupts end its waits.
struct LeaseStreams {
  std::uint64_t interrupt_check = 0;  // its connection's
  Stream stream;                      // the one, if it was one
  Stream view_stream;                 // one of ours, for views whose users name none
  bool ordered = false;               // something has waited: a stream, or the host
  bool ambiguous = false;             // several streams
};
}  // namespace internal

// Keeps the slot of a lease from being overwritten, beyond the lease, until the last copy dies.
// Destructible on any thread; never blocks, never calls the daemon. For views that outlive a scope.
using Pin = std::shared_ptr<const void>;

// Elements of others in a GPU's memory, of the dtype and shape of an array or a region, for
// Array::put() and WriteLease::put().
struct GpuSource {
  const void* data = nullptr;               // the first element; not needed if there is none
  std::vector<std::int64_t> strides_bytes;  // none: C order
  // Where their producer works on them: the copy waits for what this stream was given until now,
  // and what it is given later for the copy. Default: nothing is under way, nor will be.
  Stream stream = {};
  // Keeps them until the GPU has copied them, and until a later call sees that.
  std::shared_ptr<const void> owner;
};

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

// A lease on the next version, to write it. Destroyed without publish() it is dropped, and readers
// see nothing of it. Movable, not copyable; used by one thread at a time. Its addresses are other
// ones than those of read leases of the same slot, whose pages cannot be written.
class MEMLEASE_API WriteLease {
 public:
  WriteLease(WriteLease&&) noexcept;
  WriteLease& operator=(WriteLease&&) noexcept;
  ~WriteLease();  // drop()

  std::uint64_t version() const;  // the number that publish() gives to it
  std::uint32_t slot() const;
  // First element; unspecified bytes, but after update() the current version's. Of a device array
  // it is device memory, and the host waits here until nobody's work touches the slot any more,
  // unless a stream has been made to.
  void* data() const MEMLEASE_LIFETIMEBOUND;
  [[nodiscard]] Pin pin() const;

  // Device arrays: what `stream` is given from now on runs behind all earlier work on the slot, and
  // behind what the stream that waited before was given until now. Else as ReadLease::wait.
  void wait(Stream stream) const;
  void wait_for_view(Stream consumer) const;
  Stream export_stream() const;
  void wait_on_host() const;

  // As of a ReadLease.
  template <typename T, std::size_t N>
  [[nodiscard]] Span<T, N> span() const& MEMLEASE_LIFETIMEBOUND;
  template <typename T, std::size_t N>
  Span<T, N> span() && = delete;  // auto lease = array.write(); first
  template <typename T, std::size_t N>
  [[nodiscard]] Span<T, N> span(const Region& region) const& MEMLEASE_LIFETIMEBOUND;
  template <typename T, std::size_t N>
  Span<T, N> span(const Region& region) && = delete;  // auto lease = array.write(); first
  template <typename T, std::size_t N>
  [[nodiscard]] View<T, N> view() const& MEMLEASE_LIFETIMEBOUND;
  template <typename T, std::size_t N>
  View<T, N> view() && = delete;  // auto lease = array.write(); first

  // Copies all elements, or those of a region, from a GPU's memory, as Array::put(): on the lease's
  // stream, or waiting for the copy. Throws what that throws, and Unsupported where no GPU is
  // visible. After an error the lease goes on, and its bytes are unspecified.
  void put(const GpuSource& source) const { put(Region(), source); }
  void put(const Region& region, const GpuSource& source) const;

  // Makes the version current and ends the lease; returns its number. No call to the daemon, and
  // no system call unless a reader sleeps or pins live. Pins go on, as those of a read lease: they
  // keep the slot, and nobody may write by them any more. In the host's memory such a write ends
  // the process (explain_faults() says why), where the slot has whole pages of its own; on a
  // device, and in smaller arrays, it would change what readers see. With ConnectOptions::strict
  // this throws Busy while pins live, and the lease goes on. Of a device array: readers wait for
  // what `stream` was given until now; by default that is the stream that waited. If there was
  // none, or more than one, this waits for the device. After an exception, an interrupt's too, the
  // version has been dropped.
  std::uint64_t publish(Stream stream = {});
  // Ends the lease without a version. With pins alive the slot stays out of use until they die. The
  // stream is as in publish().
  void drop(Stream stream = {});
  bool ended() const noexcept;

 private:
  friend class Array;
  friend struct internal::ForBindings;
  WriteLease(internal::OpenArray& state, std::uint64_t version, std::uint32_t slot,
             std::uint64_t interrupt_check, bool strict) noexcept;
  // Of a device array, as ReadLease::begin. `copy`: with the current version's bytes.
  void begin(Stream stream, bool copy);
  std::uint64_t publish_over(Stream stream, bool late_writes);
  void count_use() const noexcept;
  internal::OpenArray& live() const;
  internal::OpenArray* state_;  // lives as long as the write goes on; null once ended
  std::byte* data_ = nullptr;
  std::uint64_t version_ = 0;
  std::uint32_t slot_ = 0;
  bool strict_ = false;
  mutable bool used_ = false;  // somebody has asked for the bytes
  mutable internal::LeaseStreams streams_;
  mutable std::weak_ptr<const void> pin_;
};

namespace internal {
template <typename T, std::size_t N>
Span<T, N> make_span(T* data, const OpenArray& array) {
  check_view(array, dtype_of<T>(), N);
  std::array<std::int64_t, N> shape{};
  std::array<std::int64_t, N> strides{};
  for (std::size_t i = 0; i < N; ++i) {
    shape[i] = shape_of(array)[i];
    strides[i] = strides_bytes_of(array)[i];
  }
  return Span<T, N>(data, shape, strides);
}
template <typename T, std::size_t N>
Span<T, N> make_span(T* data, const OpenArray& array, const Region& region) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
  const ElementLayout part = layout_of_view(array, region, dtype_of<T>(), N);
  std::array<std::int64_t, N> shape{};
  std::array<std::int64_t, N> strides{};
  for (std::size_t i = 0; i < N; ++i) {
    shape[i] = part.shape[i];
    strides[i] = part.strides_bytes[i];
  }
  Byte* const first = reinterpret_cast<Byte*>(data) + part.offset_bytes;
  return Span<T, N>(reinterpret_cast<T*>(first), shape, strides);
}
template <typename T, std::size_t N>
View<T, N> make_view(T* data, const OpenArray& array) {
  const Span<T, N> span = make_span<T, N>(data, array);
  if (!span.is_contiguous()) throw_not_contiguous(array);
  return View<T, N>(data, span.shape());
}
}  // namespace internal

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

template <typename T, std::size_t N>
Span<T, N> WriteLease::span() const& {
  return internal::make_span<T, N>(static_cast<T*>(data()), live());
}

template <typename T, std::size_t N>
Span<T, N> WriteLease::span(const Region& region) const& {
  return internal::make_span<T, N>(static_cast<T*>(data()), live(), region);
}

template <typename T, std::size_t N>
View<T, N> WriteLease::view() const& {
  return internal::make_view<T, N>(static_cast<T*>(data()), live());
}

}  // namespace memlease
