// A named array, open in this process. Standard library only, C++17.
#pragma once

#include <memlease/attributes.h>
#include <memlease/dtype.h>
#include <memlease/error.h>
#include <memlease/follower.h>
#include <memlease/lease.h>
#include <memlease/region.h>
#include <memlease/stop.h>
#include <memlease/stream.h>
#include <memlease/timeout.h>
#include <memlease/version.h>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace memlease {

namespace internal {
class ArrayHandle;
enum class Pins : bool;
struct ReadAttempt;
struct WriteAttempt;
// Of what has its elements one after the other.
template <typename Elements>
using ElementOf = std::remove_pointer_t<decltype(std::data(std::declval<Elements&>()))>;
}  // namespace internal

struct ReadOptions {
  std::uint64_t version = 0;     // this version; 0 = the current one
  std::uint64_t newer_than = 0;  // a version above this one
  Timeout timeout = {};          // for a version that is not there yet; default: no end
  Stream stream = {};            // of a device array: ReadLease::wait
};

struct WriteOptions {
  Timeout wait = {};   // for a free slot and for writer ownership; default: 10 seconds
  Stream stream = {};  // of a device array: WriteLease::wait
};

// Copies are one handle of the array; each open() and create() gives another one. All calls are
// thread-safe, and all of them throw memlease::Error: Closed, Withdrawn, DaemonLost wherever they
// apply. In a forked child a handle opens its array again, by its name, at its first use there:
// that calls the daemon, and throws Withdrawn if it is not the same array any more. Followers go on
// from the version that they have seen; leases of the parent throw ForkedClient.
class MEMLEASE_API Array {
 public:
  // Moves copy, too: what was moved from is a handle still.
  Array(const Array&) noexcept = default;
  Array& operator=(const Array&) noexcept = default;
  ~Array() = default;

  const std::string& name() const MEMLEASE_LIFETIMEBOUND;
  DType dtype() const;
  const std::vector<std::int64_t>& shape() const MEMLEASE_LIFETIMEBOUND;
  const std::vector<std::int64_t>& strides_bytes() const MEMLEASE_LIFETIMEBOUND;
  const std::string& device() const MEMLEASE_LIFETIMEBOUND;  // "host", or a GPU's UUID
  int device_ordinal() const;  // of that GPU in this process, as in "cuda:0"; -1 for the host
  std::uint32_t slots() const;
  std::uint32_t max_slots() const;
  bool persistent() const;
  std::uint32_t mode() const;
  bool exclusive_writer() const;  // CreateOptions::writer
  // Whose access the mode limits: of the process that created it.
  std::uint32_t owner_uid() const;
  std::uint32_t owner_gid() const;
  const Attributes& attributes() const MEMLEASE_LIFETIMEBOUND;  // CreateOptions::attributes
  std::uint64_t size_bytes() const;  // of one version, from the first to the last element
  bool may_write() const;            // by its mode
  bool created() const noexcept;     // by the call that gave this handle
  // Of the current version, on whatever device; 0 = none, as after a write of an only slot that was
  // dropped. No lease, no call but for what of other writers this process has not met. Throws
  // Withdrawn.
  std::uint64_t version() const;
  // A process that is alive, as far as the daemon has seen, is the array's writer: it has written
  // the array last, and not closed it. No call, no lease.
  bool has_writer() const;
  const std::string& directory() const MEMLEASE_LIFETIMEBOUND;  // of the daemon that owns it
  std::uint64_t id() const;  // unique in the daemon's run; never used again

  // The current version, or the one that the options ask for. Waits for the first one. Throws
  // Timeout, VersionGone, ProducerDied, WriteAborted (the last two: slots=1 only, or for a version
  // of that number; with newer_than at that number or above, it waits for the next version),
  // Busy (slots=1: where it would wait for a write that this thread itself has begun). No call to
  // the daemon but at the first read. With a stream, and a daemon that lets the host wait
  // (event_waits = host), it waits for the version, too: event_wait_timeout_s at most, then
  // Timeout.
  [[nodiscard]] ReadLease read(const ReadOptions& options = {}) const;
  // With a timeout alone: read(1s). So with the calls below.
  template <typename T, internal::IfTimeout<T> = 0>
  [[nodiscard]] ReadLease read(const T& timeout) const {
    return read(ReadOptions{0, 0, timeout, {}});
  }
  // The same without an exception where read() would throw Timeout: gives nothing then. Its timeout
  // is zero by default: it does not wait.
  [[nodiscard]] std::optional<ReadLease> try_read(const ReadOptions& options = {}) const;
  template <typename T, internal::IfTimeout<T> = 0>
  [[nodiscard]] std::optional<ReadLease> try_read(const T& timeout) const {
    return try_read(ReadOptions{0, 0, timeout, {}});
  }

  // The next version, to be filled. Throws NoFreeSlot at the deadline, Denied without write access
  // or where another process is the exclusive writer, Busy where this process itself has held the
  // only slot for a tenth of a second, or this thread has a write lease. No call to the daemon
  // while this process keeps writer ownership. Streams and event_waits: as read(), for the slot's
  // earlier users.
  [[nodiscard]] WriteLease write(const WriteOptions& options = {}) const;
  template <typename T, internal::IfTimeout<T> = 0>
  [[nodiscard]] WriteLease write(const T& wait) const {
    return write(WriteOptions{wait, {}});
  }
  // The same for whoever would rather skip a version: gives nothing, and no reason, where write()
  // would throw NoFreeSlot or Timeout. Its wait is zero by default: it does not wait. It may call
  // the daemon for writer ownership, and where readers hold all slots for one more; a daemon that
  // has refused one is not asked again for a tenth of a second.
  [[nodiscard]] std::optional<WriteLease> try_write(const WriteOptions& options = {}) const;
  template <typename T, internal::IfTimeout<T> = 0>
  [[nodiscard]] std::optional<WriteLease> try_write(const T& wait) const {
    return try_write(WriteOptions{wait, {}});
  }
  // As write(), starting with the bytes of the current version (a copy; with slots=1 in place).
  [[nodiscard]] WriteLease update(const WriteOptions& options = {}) const;
  template <typename T, internal::IfTimeout<T> = 0>
  [[nodiscard]] WriteLease update(const T& wait) const {
    return update(WriteOptions{wait, {}});
  }

  // `after`: begin with a version above this one; 0 begins with the current one. `stream`: as in
  // ReadOptions, for each lease.
  [[nodiscard]] Follower follow(Timeout timeout = {}, std::uint64_t after = 0,
                                Stream stream = {}) const;
  [[nodiscard]] Follower follow(const FollowOptions& options) const;

  // A descriptor for select, epoll and the loops of GUIs: readable while there is a version above
  // the newest one that this handle (any copy of it) has read, or was told will never come, since
  // the first call; at first, while there is any version; and when a read would throw. It is the
  // handle's own, as long as that lives: wait for it, and do not read or close it. May be readable
  // for nothing: read with a timeout of 0 where that matters. From the first call on, which may
  // call the daemon, publishing wakes this process, and each read waits again. Throws OutOfMemory
  // if there are no descriptors left. A forked child asks again.
  int event_fd() const;

#if defined(__cpp_lib_jthread)
  // The same with a std::stop_token. A stop ends the wait at once (within a tenth of a second where
  // another thread of this process writes, or the daemon is asked), and it throws Interrupted. What
  // need not be waited for is given nevertheless.
  [[nodiscard]] ReadLease read(internal::StopToken auto stop,
                               const ReadOptions& options = {}) const {
    return internal::until_stopped(std::move(stop),
                                   [&](const internal::Stop& by) { return read(options, &by); });
  }
  [[nodiscard]] WriteLease write(internal::StopToken auto stop,
                                 const WriteOptions& options = {}) const {
    return internal::until_stopped(std::move(stop),
                                   [&](const internal::Stop& by) { return write(options, &by); });
  }
  [[nodiscard]] WriteLease update(internal::StopToken auto stop,
                                  const WriteOptions& options = {}) const {
    return internal::until_stopped(std::move(stop),
                                   [&](const internal::Stop& by) { return update(options, &by); });
  }
  // Of get() and put(), below: a copy that has begun is not stopped.
  std::uint64_t get(internal::StopToken auto stop, void* destination, std::uint64_t size_bytes,
                    const ReadOptions& options = {}) const {
    return internal::until_stopped(std::move(stop), [&](const internal::Stop& by) {
      return get(Region(), destination, size_bytes, options, &by);
    });
  }
  std::uint64_t put(internal::StopToken auto stop, const void* source, std::uint64_t size_bytes,
                    const WriteOptions& options = {}) const {
    return internal::until_stopped(std::move(stop), [&](const internal::Stop& by) {
      return put(Region(), source, size_bytes, options, &by);
    });
  }
  std::uint64_t put(internal::StopToken auto stop, const GpuSource& source,
                    const WriteOptions& options = {}) const {
    return internal::until_stopped(std::move(stop), [&](const internal::Stop& by) {
      return put(Region(), source, options, &by);
    });
  }
#endif

  // A handle of the same array on another device ("host", "cuda:0", a GPU's UUID), by a replica
  // that is made there at the first time; on its own device, this handle. Reading there copies the
  // newest version over unless it is there, once however many ask for it, and waits for the copy;
  // writing there makes the array's next version. A version has one number wherever it is. A
  // replica has the array's slots, counts in its owner's quota, and goes once nobody has it open
  // and its home has its newest version; errors and memleasectl call it "name@device". Calls the
  // daemon. Throws InvalidArgument and Unsupported (the device), Denied (it would have to be made,
  // and this process may not write the array), QuotaExceeded, OutOfMemory. Reading throws Denied
  // where this process may not write and the newest version is elsewhere.
  Array on(const std::string& device) const;

  // Copies a whole version out of or into C-ordered host memory of exactly the array's elements.
  // They wait as read() and write() do, and return the version.
  std::uint64_t get(void* destination, std::uint64_t size_bytes,
                    const ReadOptions& options = {}) const {
    return get(Region(), destination, size_bytes, options);
  }
  std::uint64_t put(const void* source, std::uint64_t size_bytes,
                    const WriteOptions& options = {}) const {
    return put(Region(), source, size_bytes, options);
  }
  // The same with what has its elements one after the other: a std::vector, std::array, std::span
  // or C array, of exactly the array's elements. Throws InvalidArgument also where their type is
  // not the array's.
  template <typename T>
  [[nodiscard]] std::vector<T> get(const ReadOptions& options = {}) const {
    static_assert(!std::is_same_v<T, bool>, "a std::vector<bool> has no bytes: take an array");
    std::vector<T> elements(static_cast<std::size_t>(count_of(dtype_of<T>())));
    get(elements.data(), elements.size() * sizeof(T), options);
    return elements;
  }
  template <typename Elements, typename T = internal::ElementOf<Elements>>
  std::uint64_t get(Elements&& elements, const ReadOptions& options = {}) const {
    static_assert(!std::is_const_v<T>, "there is no writing into these elements");
    count_of(dtype_of<std::remove_cv_t<T>>());
    return get(std::data(elements), std::size(elements) * sizeof(T), options);
  }
  template <typename Elements, typename T = internal::ElementOf<const Elements>>
  std::uint64_t put(const Elements& elements, const WriteOptions& options = {}) const {
    count_of(dtype_of<std::remove_cv_t<T>>());
    return put(std::data(elements), std::size(elements) * sizeof(T), options);
  }
  std::uint64_t put(const std::vector<bool>& elements,
                    const WriteOptions& options = {}) const = delete;  // it has no bytes
  // The same of a region's elements. What else is in the version that put() makes is the current
  // version's, as after update().
  std::uint64_t get(const Region& region, void* destination, std::uint64_t size_bytes,
                    const ReadOptions& options = {}) const {
    return get(region, destination, size_bytes, options, nullptr);
  }
  std::uint64_t put(const Region& region, const void* source, std::uint64_t size_bytes,
                    const WriteOptions& options = {}) const {
    return put(region, source, size_bytes, options, nullptr);
  }
  // From the memory of the array's own GPU, or from a GPU's to the host. With a stream a device
  // array's version is copied there, and nothing blocks for it; else this waits for the copy.
  // Throws InvalidArgument for another GPU and for strides that are not one a dimension, and
  // Unsupported for elements in another order than the array's (for a host array, and for a region,
  // C order is taken, too). A failed put() publishes nothing.
  std::uint64_t put(const GpuSource& source, const WriteOptions& options = {}) const {
    return put(Region(), source, options);
  }
  std::uint64_t put(const Region& region, const GpuSource& source,
                    const WriteOptions& options = {}) const {
    return put(region, source, options, nullptr);
  }

  // Removes the name at once; the bytes go when the last lease and view has gone.
  void withdraw() const;
  // Closes the handle, which is all copies of it and no other one; leases and pins stay valid. What
  // waits by it in other threads, followers too, throws Closed within a tenth of a second. With
  // the process's last handle of the array its subscription and writer ownership are given up,
  // which may call the daemon. An exception of check_interrupt ends that call; closed it is then.
  void close() const;
  bool closed() const noexcept;

 private:
  friend class Client;
  friend class Awaited;
  friend struct internal::ForBindings;
  explicit Array(std::shared_ptr<internal::ArrayHandle> handle, bool created = false) noexcept;
  internal::OpenArray& state() const;
  std::int64_t count_of(DType dtype) const;  // of its elements, which must be of this type
  ReadLease lease_of(const internal::ReadAttempt& acquired, Stream stream) const;
  WriteLease lease_of(const internal::WriteAttempt& attempt, Stream stream) const;
  ReadLease read(const ReadOptions& options, const internal::Stop* stop) const;
  WriteLease write(const WriteOptions& options, const internal::Stop* stop) const;
  WriteLease update(const WriteOptions& options, const internal::Stop* stop) const;
  WriteLease write(const WriteOptions& options, const internal::Stop* stop,
                   internal::Pins pins) const;
  WriteLease update(const WriteOptions& options, const internal::Stop* stop,
                    internal::Pins pins) const;
  std::optional<WriteLease> try_write(const WriteOptions& options, internal::Pins pins) const;
  std::uint64_t get(const Region& region, void* destination, std::uint64_t size_bytes,
                    const ReadOptions& options, const internal::Stop* stop) const;
  std::uint64_t put(const Region& region, const void* source, std::uint64_t size_bytes,
                    const WriteOptions& options, const internal::Stop* stop) const;
  std::uint64_t put(const Region& region, const GpuSource& source, const WriteOptions& options,
                    const internal::Stop* stop) const;
  WriteLease begin_put(const internal::ElementLayout& part, const WriteOptions& options,
                       const internal::Stop* stop) const;
  std::shared_ptr<internal::ArrayHandle> handle_;
  bool created_;
};

}  // namespace memlease
