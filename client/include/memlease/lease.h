// Leases: one process's right to one version of an array. Standard library only, C++17.
#pragma once

#include <memlease/dtype.h>
#include <memlease/span.h>
#include <memlease/version.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace memlease {

namespace internal {
class ArrayState;
// Throws InvalidArgument unless T and N fit the array.
MEMLEASE_API void check_view(const ArrayState& array, DType dtype, std::size_t ndim);
MEMLEASE_API const std::vector<std::int64_t>& shape_of(const ArrayState& array);
MEMLEASE_API const std::vector<std::int64_t>& strides_bytes_of(const ArrayState& array);
}  // namespace internal

// Keeps the slot of a lease from being overwritten, beyond the lease, until the last copy dies.
// Destructible on any thread; never blocks, never calls the daemon. For views that outlive a scope.
using Pin = std::shared_ptr<const void>;

// The right to read one version. The bytes do not change while it lives. Movable, not copyable;
// one lease is used by one thread at a time, different leases by any threads at once.
class MEMLEASE_API ReadLease {
 public:
  ReadLease(ReadLease&&) noexcept;
  ReadLease& operator=(ReadLease&&) noexcept;
  ~ReadLease();  // release()

  std::uint64_t version() const;  // 1, 2, 3, ...
  std::uint32_t slot() const;
  const void* data() const;  // first element; host memory; throws Closed after release()
  Pin pin() const;           // throws Closed after release()

  // T and N must fit the array's dtype and number of dimensions, else InvalidArgument.
  template <typename T, std::size_t N>
  Span<const T, N> span() const;

  // Ends the lease. False if pins still keep the slot. No call to the daemon. A second
  // call does nothing.
  bool release();
  bool released() const noexcept;

 private:
  friend class Array;
  friend class Follower;
  ReadLease(internal::ArrayState& state, std::uint64_t version, std::uint32_t slot) noexcept
      : state_(&state), version_(version), slot_(slot) {}
  internal::ArrayState& live() const;
  internal::ArrayState* state_;  // lives as long as the slot is held; null once released
  std::uint64_t version_ = 0;
  std::uint32_t slot_ = 0;
  mutable std::weak_ptr<const void> pin_;
};

// The right to write the next version. Destroyed without publish() it is dropped, and readers see
// nothing of it. Movable, not copyable; used by one thread at a time.
class MEMLEASE_API WriteLease {
 public:
  WriteLease(WriteLease&&) noexcept;
  WriteLease& operator=(WriteLease&&) noexcept;
  ~WriteLease();  // drop()

  std::uint64_t version() const;  // the number that publish() gives to it
  std::uint32_t slot() const;
  void* data() const;  // first element; unspecified bytes, but after update() the current version's
  Pin pin() const;

  template <typename T, std::size_t N>
  Span<T, N> span() const;

  // Makes the version current and ends the lease; returns its number. No call to the daemon, and
  // no system call unless a reader sleeps. With pins alive it throws Busy and the lease goes on,
  // since later writes through them would change a published version; `allow_pins` publishes all
  // the same: then the caller answers for that.
  std::uint64_t publish(bool allow_pins = false);
  // Ends the lease without a version. With pins alive the slot stays out of use until they die.
  void drop();
  bool ended() const noexcept;

 private:
  friend class Array;
  WriteLease(internal::ArrayState& state, std::uint64_t version, std::uint32_t slot) noexcept
      : state_(&state), version_(version), slot_(slot) {}
  internal::ArrayState& live() const;
  internal::ArrayState* state_;  // lives as long as the write goes on; null once ended
  std::uint64_t version_ = 0;
  std::uint32_t slot_ = 0;
  mutable std::weak_ptr<const void> pin_;
};

namespace internal {
template <typename T, std::size_t N>
Span<T, N> make_span(T* data, const ArrayState& array) {
  check_view(array, dtype_of<T>(), N);
  std::array<std::int64_t, N> shape{};
  std::array<std::int64_t, N> strides{};
  for (std::size_t i = 0; i < N; ++i) {
    shape[i] = shape_of(array)[i];
    strides[i] = strides_bytes_of(array)[i];
  }
  return Span<T, N>(data, shape, strides);
}
}  // namespace internal

template <typename T, std::size_t N>
Span<const T, N> ReadLease::span() const {
  return internal::make_span<const T, N>(static_cast<const T*>(data()), live());
}

template <typename T, std::size_t N>
Span<T, N> WriteLease::span() const {
  return internal::make_span<T, N>(static_cast<T*>(data()), live());
}

}  // namespace memlease
