// What is done to each element of an array, on the host and on GPUs: fill, copy with conversion,
// and add_index_tuple, a sample of a kernel that needs its elements' indices. Any rank to 32 and
// any strides; elements in C order without gaps are the fast case. Standard library only, C++17.
//
// On the host the calling thread returns when the work is done; with OpenMP (-fopenmp) large arrays
// are shared among its threads, and GCC makes vector instructions at -O2, too, where elements have
// no gaps; -fopenmp-simd -DMEMLEASE_OPENMP_SIMD has it do so without threads. In CUDA C++ (nvcc)
// the overloads that take a stream launch a kernel there and return; the pointers are a GPU's, and
// on the stream the lease's are in order: see lease.data() and WriteOptions::stream. An empty array
// launches nothing.
//
//   auto lease = array.write();
//   memlease::fill(lease.span<float, 3>(), 0.5F);
//   memlease::add_index_tuple(lease.span<float, 3>());
//   lease.publish();
#pragma once

#include <memlease/indexer.h>
#include <memlease/span.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

// For GCC alone: Clang makes vector instructions at -O2 anyway, and warns where this asks in vain.
// That -fopenmp-simd is given cannot be seen here, and without it GCC warns of the pragma.
#if defined(__GNUC__) && !defined(__clang__) && (defined(_OPENMP) || defined(MEMLEASE_OPENMP_SIMD))
#define MEMLEASE_SIMD _Pragma("omp simd")
#else
#define MEMLEASE_SIMD
#endif

namespace memlease {

namespace internal {

// The sum of an element's indices, as its type has it: (1, 2, 3) is 6.
template <typename T, typename Indices, typename Integer = std::int64_t>
MEMLEASE_HOST_DEVICE constexpr T sum_of_indices(const Indices& at, std::size_t rank) {
  Integer sum = 0;
  for (std::size_t dim = 0; dim < rank; ++dim) sum += at[dim];
  return static_cast<T>(sum);
}

template <typename T, typename U, std::size_t N>
void require_same_shape(const Span<T, N>& to, const Span<U, N>& from) {
  for (std::size_t dim = 0; dim < N; ++dim) {
    if (to.extent(dim) == from.extent(dim)) continue;
    throw std::invalid_argument(
        "memlease: dimension " + std::to_string(dim) + " has " + std::to_string(from.extent(dim)) +
        " elements where they come from and " + std::to_string(to.extent(dim)) + " where they go");
  }
}

// Elements that are next to each other in the last dimension: body(at, count) is called with the
// indices of the first of so many. Together they are those with the numbers [first, last) in C
// order.
template <typename Indexer, typename Body>
void for_each_run(const Indexer& cells, typename Indexer::index_type first,
                  typename Indexer::index_type last, const Body& body) {
  using Integer = typename Indexer::index_type;
  constexpr std::size_t kRank = Indexer::rank();
  while (first < last) {
    const auto at = cells.get_indices(first);
    Integer count = 1;
    if constexpr (kRank > 0) count = cells.extent(kRank - 1) - at[kRank - 1];
    if (count > last - first) count = last - first;
    body(at, count);
    first += count;
  }
}

// The same for all elements, by OpenMP's threads where there are enough.
template <typename Indexer, typename Body>
void for_all_runs(const Indexer& cells, const Body& body) {
  using Integer = typename Indexer::index_type;
  const Integer size = cells.size();
#ifdef _OPENMP
  constexpr Integer kPart = 1 << 15;  // elements that are worth a thread
  const Integer parts = (size + kPart - 1) / kPart;
#pragma omp parallel for schedule(static) if (parts > 1)
  for (Integer part = 0; part < parts; ++part) {
    const Integer first = part * kPart;
    for_each_run(cells, first, size - first < kPart ? size : first + kPart, body);
  }
#else
  for_each_run(cells, 0, size, body);
#endif
}

// Of the other width.
template <typename To, typename From>
To indices_as(const From& at, std::size_t rank) {
  To same{};
  for (std::size_t dim = 0; dim < rank; ++dim) {
    same[dim] = static_cast<std::decay_t<decltype(same[dim])>>(at[dim]);
  }
  return same;
}

// body(source, cells), with the fastest Indexer of each.
template <typename T, typename U, std::size_t N, typename Body>
void visit_two(const Span<U, N>& from, const Span<T, N>& to, const Body& body) {
  visit_indexer(from,
                [&](auto source) { visit_indexer(to, [&](auto cells) { body(source, cells); }); });
}

// From one element to the next in the last dimension; a constant where there are no gaps, so that
// compilers vectorise.
template <typename Indexer>
constexpr auto step_of(const Indexer& cells) {
  if constexpr (Indexer::layout() == Layout::Contiguous || Indexer::rank() == 0) {
    return std::integral_constant<typename Indexer::index_type, 1>{};
  } else {
    return cells.stride(Indexer::rank() - 1);
  }
}

// body(i) for the elements of a run, which are at i * step. Where the step is a constant, 1, these
// are different elements, in whatever order; a step of 0 is one element again and again.
template <typename Integer, typename Step, typename Body>
void for_each_of_run(Integer count, Step /*step*/, const Body& body) {
  if constexpr (std::is_same_v<Step, Integer>) {
    for (Integer i = 0; i < count; ++i) body(i);
  } else {
    MEMLEASE_SIMD
    for (Integer i = 0; i < count; ++i) body(i);
  }
}

}  // namespace internal

// Each element becomes `value`.
template <typename T, std::size_t N>
void fill(const Span<T, N>& to, const T& value) {
  visit_indexer(to, [value](auto cells) {
    internal::for_all_runs(cells, [&](const auto& at, auto count) {
      T* const run = &cells[at];
      const auto step = internal::step_of(cells);
      internal::for_each_of_run(count, step, [=](auto i) { run[i * step] = value; });
    });
  });
}

// Each element becomes that of `from` with the same indices, converted as by static_cast. The two
// do not overlap. Throws std::invalid_argument: another shape.
template <typename T, typename U, std::size_t N>
void copy(const Span<U, N>& from, const Span<T, N>& to) {
  internal::require_same_shape(to, from);
  internal::visit_two(from, to, [](auto source, auto cells) {
    internal::for_all_runs(cells, [&](const auto& at, auto count) {
      T* const run = &cells[at];
      U* const source_run =
          &source[internal::indices_as<typename decltype(source)::Indices>(at, N)];
      const auto step = internal::step_of(cells);
      const auto source_step = internal::step_of(source);
      internal::for_each_of_run(count, step, [=](auto i) {
        run[i * step] = static_cast<T>(source_run[i * source_step]);
      });
    });
  });
}

// The sum of its indices is added to each element.
template <typename T, std::size_t N>
void add_index_tuple(const Span<T, N>& on) {
  visit_indexer(on, [](auto cells) {
    internal::for_all_runs(cells, [&](const auto& at, auto count) {
      using Integer = decltype(count);
      T* const run = &cells[at];
      const auto step = internal::step_of(cells);
      const auto first = internal::sum_of_indices<Integer, decltype(at), Integer>(at, N);
      internal::for_each_of_run(count, step, [=](Integer i) {
        run[i * step] = static_cast<T>(run[i * step] + static_cast<T>(first + i));
      });
    });
  });
}

#if defined(__CUDACC__)

namespace internal {

// A grid of threads that step over the elements until there are none: each call of body(n) has the
// number of one in C order.
template <typename Integer, typename Body>
__global__ void for_each_number(Integer size, Body body) {
  const auto step = static_cast<Integer>(gridDim.x) * static_cast<Integer>(blockDim.x);
  auto n = static_cast<Integer>(blockIdx.x) * static_cast<Integer>(blockDim.x) +
           static_cast<Integer>(threadIdx.x);
  for (; n < size; n += step) body(n);
}

// Throws std::runtime_error, with CUDA's word for it, where the kernel could not be launched.
template <typename Integer, typename Body>
void launch(Integer size, const Body& body, cudaStream_t stream) {
  constexpr Integer kThreads = 256;
  constexpr Integer kMostBlocks = 1 << 16;
  if (size == 0) return;
  const Integer blocks = (size + kThreads - 1) / kThreads;
  for_each_number<Integer, Body>
      <<<static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks),
         static_cast<unsigned>(kThreads), 0, stream>>>(size, body);
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    throw std::runtime_error(std::string("memlease: the kernel was not launched: ") +
                             cudaGetErrorString(error));
  }
}

// Elements that one thread moves by one instruction of 16 bytes.
template <typename T>
constexpr int kPack = sizeof(T) < 16 && 16 % sizeof(T) == 0 ? static_cast<int>(16 / sizeof(T)) : 1;
template <typename T>
struct alignas(sizeof(T) * kPack<T>) Pack {
  T values[kPack<T>];
};
// Elements without gaps can be moved so.
template <typename T>
bool is_packed(const T* data, std::int64_t size) {
  return reinterpret_cast<std::uintptr_t>(data) % alignof(Pack<T>) == 0 && size % kPack<T> == 0;
}

template <typename Indexer, typename T>
struct FillBody {
  Indexer cells;
  T value;
  __device__ void operator()(typename Indexer::index_type n) const { cells.element(n) = value; }
};

template <typename T, typename Integer>
struct FillPacksBody {
  Pack<T>* packs;
  Pack<T> value;
  __device__ void operator()(Integer n) const { packs[n] = value; }
};

template <typename T, typename Integer>
struct CopyPacksBody {
  const Pack<T>* from;
  Pack<T>* to;
  __device__ void operator()(Integer n) const { to[n] = from[n]; }
};

template <typename Source, typename Indexer>
struct CopyBody {
  Source source;
  Indexer cells;
  __device__ void operator()(typename Indexer::index_type n) const {
    using T = typename Indexer::element_type;
    cells.element(n) = static_cast<T>(source.element(static_cast<typename Source::index_type>(n)));
  }
};

template <typename Indexer>
struct AddIndexTupleBody {
  Indexer cells;
  __device__ void operator()(typename Indexer::index_type n) const {
    using T = typename Indexer::element_type;
    using Integer = typename Indexer::index_type;
    const auto at = cells.get_indices(n);
    T& element = cells[at];
    element =
        static_cast<T>(element + sum_of_indices<T, decltype(at), Integer>(at, Indexer::rank()));
  }
};

// The same for packs of elements without gaps whose last dimension is a multiple of a pack: they
// have their other indices in common.
template <typename Indexer>
struct AddIndexTuplePacksBody {
  using T = typename Indexer::element_type;
  using Integer = typename Indexer::index_type;
  Indexer cells;
  __device__ void operator()(Integer n) const {
    const auto at = cells.get_indices(n * kPack<T>);
    const auto first = sum_of_indices<Integer, decltype(at), Integer>(at, Indexer::rank());
    auto* const packs = reinterpret_cast<Pack<T>*>(cells.data());
    Pack<T> pack = packs[n];
    for (int i = 0; i < kPack<T>; ++i) {
      pack.values[i] = static_cast<T>(pack.values[i] + static_cast<T>(first + i));
    }
    packs[n] = pack;
  }
};

}  // namespace internal

// As above, on a GPU: a kernel on the stream, behind which the call does not wait. Throws
// std::runtime_error where it could not be launched.
template <typename T, std::size_t N>
void fill(const Span<T, N>& to, const T& value, cudaStream_t stream) {
  visit_indexer(to, [&](auto cells) {
    using Indexer = decltype(cells);
    using Integer = typename Indexer::index_type;
    if constexpr (Indexer::layout() == Layout::Contiguous) {
      if (internal::is_packed(cells.data(), cells.size())) {
        internal::Pack<T> pack{};
        for (T& one : pack.values) one = value;
        auto* const packs = reinterpret_cast<internal::Pack<T>*>(cells.data());
        return internal::launch<Integer>(cells.size() / internal::kPack<T>,
                                         internal::FillPacksBody<T, Integer>{packs, pack}, stream);
      }
    }
    internal::launch<Integer>(cells.size(), internal::FillBody<Indexer, T>{cells, value}, stream);
  });
}

template <typename T, typename U, std::size_t N>
void copy(const Span<U, N>& from, const Span<T, N>& to, cudaStream_t stream) {
  internal::require_same_shape(to, from);
  internal::visit_two(from, to, [stream](auto source, auto cells) {
    using Source = decltype(source);
    using Indexer = decltype(cells);
    using Integer = typename Indexer::index_type;
    if constexpr (std::is_same_v<std::remove_const_t<U>, T> &&
                  Source::layout() == Layout::Contiguous &&
                  Indexer::layout() == Layout::Contiguous) {
      if (internal::is_packed(source.data(), source.size()) &&
          internal::is_packed(cells.data(), cells.size())) {
        const auto* const packs = reinterpret_cast<const internal::Pack<T>*>(source.data());
        auto* const into = reinterpret_cast<internal::Pack<T>*>(cells.data());
        return internal::launch<Integer>(cells.size() / internal::kPack<T>,
                                         internal::CopyPacksBody<T, Integer>{packs, into}, stream);
      }
    }
    internal::launch<Integer>(cells.size(), internal::CopyBody<Source, Indexer>{source, cells},
                              stream);
  });
}

template <typename T, std::size_t N>
void add_index_tuple(const Span<T, N>& on, cudaStream_t stream) {
  visit_indexer(on, [&](auto cells) {
    using Indexer = decltype(cells);
    using Integer = typename Indexer::index_type;
    if constexpr (Indexer::layout() == Layout::Contiguous && N > 0) {
      if (internal::is_packed(cells.data(), cells.extent(N - 1))) {
        return internal::launch<Integer>(cells.size() / internal::kPack<T>,
                                         internal::AddIndexTuplePacksBody<Indexer>{cells}, stream);
      }
    }
    internal::launch<Integer>(cells.size(), internal::AddIndexTupleBody<Indexer>{cells}, stream);
  });
}

#endif  // __CUDACC__

}  // namespace memlease
