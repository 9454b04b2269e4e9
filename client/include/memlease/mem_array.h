// MemArray: an array that is on the host and on GPUs at will, with its element type and its number
// of dimensions known to the compiler. A face of Array: whatever it does, other processes may open
// the same array, read and write it, and die. Standard library only, C++17.
#pragma once

#include <memlease/array.h>
#include <memlease/client.h>
#include <memlease/error.h>
#include <memlease/indexer.h>
#include <memlease/lease.h>
#include <memlease/span.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace memlease {

// The array is this process's, and goes when the process ends or withdraws it (array().withdraw()),
// not with this object; unless it is another's. Copies are deep, moves and swap cost nothing. It is
// where to() has brought it: leases and locks are taken there, and elements are read and written
// one by one on the host, wherever it is. Thread-safe as an Array is, but for to(), assignment and
// swap(). Its calls throw what those of Array throw.
template <typename T, std::size_t N>
class MemArray {
  static_assert(!std::is_const_v<T>, "the elements of a MemArray can be written");

 public:
  using value_type = T;
  using Shape = std::array<std::int64_t, N>;
  static constexpr std::size_t rank() { return N; }

  // One version to read, which does not change meanwhile. Ends with it.
  class Reading {
   public:
    std::uint64_t version() const { return lease_.version(); }
    // The first element; of a GPU's memory if the array is there.
    const T* data() const MEMLEASE_LIFETIMEBOUND { return static_cast<const T*>(lease_.data()); }
    Span<const T, N> span() const& { return lease_.template span<T, N>(); }
    Span<const T, N> span() && = delete;  // auto reading = a.read(); first
    template <typename Integer = std::int64_t>
    Indexer<const T, N, Integer> indexer() const& {
      return make_indexer<Integer>(span());
    }
    template <typename Integer = std::int64_t>
    Indexer<const T, N, Integer> indexer() && = delete;  // auto reading = a.read(); first
    // Throws std::out_of_range, which says which index was where; Unsupported on a GPU.
    template <typename... Index>
    const T& at(Index... index) const& {
      require_host(on_device_);
      return span().at(index...);
    }
    // Of a reading that ends with the expression: a copy.
    template <typename... Index>
    T at(Index... index) && {
      const Reading& whole = *this;
      return whole.at(index...);
    }
    const ReadLease& lease() const { return lease_; }
    // Where its work ends: ReadLease::release.
    void release(Stream stream = {}) { lease_.release(stream); }

   private:
    friend class MemArray;
    Reading(ReadLease lease, bool on_device) : lease_(std::move(lease)), on_device_(on_device) {}
    ReadLease lease_;
    bool on_device_;
  };

  // The right to change the array, which nobody else has meanwhile, in whatever process; readers go
  // on with the last version. Its elements are those of the newest version. Its end makes the next
  // one, and throws what WriteLease::publish throws; but an exception that ends it changes nothing.
  class Lock {
   public:
    Lock(Lock&&) noexcept = default;
    Lock& operator=(Lock&&) = delete;
    Lock(const Lock&) = delete;
    ~Lock() noexcept(false) {
      if (lease_.ended()) return;
      if (std::uncaught_exceptions() > exceptions_) {
        lease_.drop();
      } else {
        lease_.publish();
      }
    }
    T* data() const MEMLEASE_LIFETIMEBOUND { return static_cast<T*>(lease_.data()); }
    Span<T, N> span() const& { return lease_.template span<T, N>(); }
    Span<T, N> span() && = delete;  // auto lock = a.lock(); first
    template <typename Integer = std::int64_t>
    Indexer<T, N, Integer> indexer() const& {
      return make_indexer<Integer>(span());
    }
    template <typename Integer = std::int64_t>
    Indexer<T, N, Integer> indexer() && = delete;  // auto lock = a.lock(); first
    // As Reading's.
    template <typename... Index>
    T& at(Index... index) const& {
      require_host(on_device_);
      return span().at(index...);
    }
    template <typename... Index>
    T& at(Index... index) && = delete;  // auto lock = a.lock(); first; for one element write()
    const WriteLease& lease() const { return lease_; }
    // Now, and by a stream that its work ends on (WriteLease::publish). The version's number.
    std::uint64_t publish(Stream stream = {}) { return lease_.publish(stream); }
    // Nothing is changed.
    void drop(Stream stream = {}) { lease_.drop(stream); }

   private:
    friend class MemArray;
    Lock(WriteLease lease, bool on_device) : lease_(std::move(lease)), on_device_(on_device) {}
    WriteLease lease_;
    bool on_device_;
    int exceptions_ = std::uncaught_exceptions();
  };

  // A new array, in C order, whose elements are T(). Others open it by its name; without one it has
  // one of its own.
  MemArray(const Client& client, const Shape& shape, const std::string& device = "host",
           const std::string& name = {})
      : client_(client), array_(make(client, shape, device, name)) {
    fill_or_withdraw([&] {
      const auto zeros = std::make_unique<T[]>(static_cast<std::size_t>(size()));
      put(zeros.get(), size());
    });
  }
  // An array of others, or of Client::create. Throws InvalidArgument unless T and N are its own.
  // (A template, so that the braces of a shape mean no Array.)
  template <typename A, typename = std::enable_if_t<std::is_same_v<A, Array>>>
  MemArray(const Client& client, const A& array) : client_(client), array_(array) {
    if (array_.dtype() == dtype_of<T>() && array_.shape().size() == N) return;
    throw InvalidArgument(
        "'" + array_.name() + "' has " + std::to_string(array_.shape().size()) + " dimensions of " +
            name_of(array_.dtype()) + ": a MemArray of " + std::to_string(N) + " dimensions of " +
            name_of(dtype_of<T>()) + " does not fit",
        "Use MemArray<T, N> with the array's own element type and number of dimensions.");
  }
  // A copy of the newest version, in an array of its own, where the other one is and with its
  // strides. Throws InvalidArgument where there is no version.
  MemArray(const MemArray& other)
      : client_(other.client_),
        array_(make(other.client_, other.shape(), other.published().device(), std::string(),
                    other.array_.strides_bytes())) {
    fill_or_withdraw([&] { copy_elements(other.array_); });
  }
  MemArray(MemArray&&) noexcept = default;
  MemArray& operator=(const MemArray& other) {
    if (this != &other) MemArray(other).swap(*this);
    return *this;
  }
  MemArray& operator=(MemArray&& other) noexcept {
    swap(other);
    return *this;
  }
  ~MemArray() = default;
  void swap(MemArray& other) noexcept {
    std::swap(client_, other.client_);
    std::swap(array_, other.array_);
  }
  friend void swap(MemArray& a, MemArray& b) noexcept { a.swap(b); }

  const Array& array() const { return array_; }
  Shape shape() const {
    Shape shape{};
    for (std::size_t dim = 0; dim < N; ++dim) shape[dim] = array_.shape()[dim];
    return shape;
  }
  std::int64_t size() const { return internal::product(shape()); }
  // Where leases and locks are taken: "host", or a GPU's UUID.
  const std::string& device() const { return array_.device(); }
  bool on_device() const { return array_.device_ordinal() >= 0; }
  std::uint64_t version() const { return array_.version(); }

  // Leases and locks are taken there from now on ("host", "cuda:0", a UUID), and the newest version
  // is brought there unless it is there: Array::on. With a stream, what that is given next runs
  // behind it.
  void to(const std::string& device, Stream stream = {}) {
    const Array there = array_.on(device);
    ReadOptions options;
    options.stream = stream;
    if (there.version() != 0) there.read(options).release();
    array_ = there;
  }

  [[nodiscard]] Reading read(Stream stream = {}) const {
    ReadOptions options;
    options.stream = stream;
    return Reading(array_.read(options), on_device());
  }
  // Waits for another lock of the array's for `wait`, 10 seconds by default, then throws Timeout;
  // Busy where this thread itself has it.
  [[nodiscard]] Lock lock(Stream stream = {}, Timeout wait = {}) const {
    WriteOptions options;
    options.stream = stream;
    options.wait = wait;
    return Lock(array_.update(options), on_device());
  }

  // One element of the newest version, and a new version with another one: on the host. For more
  // than a few of them take a Reading or a Lock. Throws std::out_of_range, and InvalidArgument
  // where there is no version.
  T operator()(const Shape& index) const {
    const ReadLease lease = published().on("host").read();
    return element(lease.span<T, N>(), index);
  }
  template <typename... Index>
  T operator()(Index... index) const {
    static_assert(sizeof...(Index) == N, "give one index per dimension");
    static_assert(internal::kAreIndices<Index...>, "an index is an integer");
    return (*this)(Shape{static_cast<std::int64_t>(index)...});
  }
  void write(const Shape& index, const T& value) {
    WriteLease lease = array_.on("host").update();
    element(lease.span<T, N>(), index) = value;
    lease.publish();
  }

  // All elements, in C order, from and to the host's memory: the next version, and the newest one.
  // Throws InvalidArgument unless `count` is size().
  void put(const T* source, std::int64_t count) {
    require_count(count);
    array_.put(source, size_bytes());
  }
  void get(T* destination, std::int64_t count) const {
    require_count(count);
    array_.get(destination, size_bytes());
  }

 private:
  static Array make(const Client& client, const Shape& shape, const std::string& device,
                    const std::string& name, const std::vector<std::int64_t>& strides_bytes = {}) {
    CreateOptions options;
    options.name = name.empty() ? next_name(client) : name;
    options.dtype = dtype_of<T>();
    options.shape.assign(shape.begin(), shape.end());
    if (internal::product(shape) != 0) options.strides_bytes = strides_bytes;
    options.device = device;
    return client.create(options);
  }
  static std::string next_name(const Client& client) {
    static std::atomic<std::uint64_t> made{0};
    // A forked child has no session of its own before its first call.
    if (client.session_id() == 0) static_cast<void>(client.exists("mem_array"));
    return "mem_array/" + std::to_string(client.session_id()) + "/" + name_of(dtype_of<T>()) + "x" +
           std::to_string(N) + "." + std::to_string(++made);
  }
  template <typename U>
  static U& element(const Span<U, N>& span, const Shape& index) {
    internal::require_inside(span.shape(), index);
    IndexTuple<std::int64_t, N> at{};
    for (std::size_t dim = 0; dim < N; ++dim) at[dim] = index[dim];
    return make_indexer(span)[at];
  }
  static void require_host(bool on_device) {
    if (!on_device) return;
    throw Unsupported(
        "the elements are in a GPU's memory, which at() is not for",
        "Take a(i, j), which brings them to the host, to(\"host\") first, or a kernel.");
  }
  // Nobody waits here for a first version, as no call would say how long.
  const Array& published() const {
    if (array_.version() != 0) return array_;
    throw InvalidArgument("'" + array_.name() + "' has no version yet",
                          "put() all elements first, or wait for others' by array().read().");
  }
  // Of a new array, which goes again where that fails.
  template <typename Fill>
  void fill_or_withdraw(Fill fill) {
    try {
      fill();
    } catch (...) {
      try {
        array_.withdraw();
      } catch (const Error&) {  // what happened first is told
      }
      throw;
    }
  }
  void copy_elements(const Array& from) {
    const ReadLease lease = from.read();
    if (array_.device_ordinal() >= 0) {
      array_.put(GpuSource{lease.data(), from.strides_bytes(), {}, lease.pin()});
      return;
    }
    const auto elements = lease.span<T, N>();
    if (elements.is_contiguous()) {
      put(elements.data(), size());
    } else {
      const auto packed = std::make_unique<T[]>(static_cast<std::size_t>(size()));
      lease.get(packed.get(), size_bytes());
      put(packed.get(), size());
    }
  }
  void require_count(std::int64_t count) const {
    if (count == size()) return;
    throw InvalidArgument("'" + array_.name() + "' has " + std::to_string(size()) +
                              " elements, not " + std::to_string(count),
                          "Give as many as size() says.");
  }
  std::uint64_t size_bytes() const { return static_cast<std::uint64_t>(size()) * sizeof(T); }

  Client client_;
  Array array_;
};

}  // namespace memlease
