// WriteLease: one process's hold on the next version of an array. Standard library only, C++17.
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
#include <vector>

namespace memlease {

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
