// The kernels of memlease/kernels.h, which is the one to include, on a stream. CUDA C++17 (nvcc).
#pragma once

#include <memlease/indexer.h>
#include <memlease/kernels_host.h>
#include <memlease/span.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace memlease {

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
void fill(const Span<T, N>& to, const std::remove_const_t<T>& value, cudaStream_t stream) {
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

}  // namespace memlease
