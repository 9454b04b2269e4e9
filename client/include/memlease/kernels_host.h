// The kernels of memlease/kernels.h, which is the one to include, on the host. Standard library
// only, C++17.
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
void fill(const Span<T, N>& to, const std::remove_const_t<T>& value) {
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

}  // namespace memlease
