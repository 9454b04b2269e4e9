// TK_LAUNCH names the header that launches: launch_stand_in.h, or launch_nvcc.h where nvcc compiles
// this file as CUDA.
#include "tests/support/fakecuda/test_kernels.h"

#include <memlease/kernels.h>
#include <memlease/span.h>

#include TK_LAUNCH

namespace {

template <class T>
using Cells = memlease::Span<T, 3>;

constexpr uint64_t kLongestGateNs = 30'000'000'000;

struct Fill {
  TK_DEVICE static void at(size_t i, uint64_t* data, uint64_t value) { data[i] = value; }
};

struct Add {
  TK_DEVICE static void at(size_t i, uint64_t* data, uint64_t value) { data[i] += value; }
};

struct CopyOver {
  TK_DEVICE static void at(size_t i, uint64_t* to, const uint64_t* from) { to[i] = from[i]; }
};

struct Compare {
  TK_DEVICE static void at(size_t i, const uint64_t* data, uint64_t expected,
                           uint64_t* mismatches) {
    if (data[i] != expected) add_one(mismatches);
  }
};

struct Spin {
  TK_DEVICE static void at(size_t /*i*/, uint64_t us) {
    const uint64_t end = now_ns() + us * 1000;
    while (now_ns() < end && !gives_up()) {
    }
  }
};

struct Gate {
  TK_DEVICE static void at(size_t /*i*/, const uint32_t* flag) {
    const uint64_t end = now_ns() + kLongestGateNs;
    while (look(flag) == 0 && now_ns() < end && !gives_up()) {
    }
  }
};

struct CountUp {
  TK_DEVICE static void at(size_t /*i*/, uint64_t* counter, uint64_t us) {
    const uint64_t end = now_ns() + us * 1000;
    while (now_ns() < end && !gives_up()) add_one_visibly(counter);
  }
};

struct Stamp {
  TK_DEVICE static void at(size_t /*i*/, uint64_t* ns) { *ns = now_ns(); }
};

// The library's own, on the host where there is no stream.
struct LibraryFill {
  template <class... Stream>
  static void on(const Cells<uint64_t>& to, uint64_t value, const Stream&... stream) {
    memlease::fill(to, value, stream...);
  }
};

struct LibraryCopy {
  template <class... Stream>
  static void on(const Cells<const float>& from, const Cells<uint64_t>& to,
                 const Stream&... stream) {
    memlease::copy(from, to, stream...);
  }
};

struct LibraryAddIndexTuple {
  template <class... Stream>
  static void on(const Cells<uint64_t>& to, const Stream&... stream) {
    memlease::add_index_tuple(to, stream...);
  }
};

template <class T>
Cells<T> cells(const tk_cells& its) {
  return {static_cast<T*>(its.data),
          {its.shape[0], its.shape[1], its.shape[2]},
          {its.strides[0], its.strides[1], its.strides[2]}};
}

}  // namespace

int tk_fill(uint64_t* data, size_t count, uint64_t value, cudaStream_t stream) {
  return launch<Fill>("tk_fill", count, stream, writes(data, count), value);
}

int tk_add(uint64_t* data, size_t count, uint64_t value, cudaStream_t stream) {
  return launch<Add>("tk_add", count, stream, changes(data, count), value);
}

int tk_cells_fill(const tk_cells* to, uint64_t value, cudaStream_t stream) {
  return launch_library<LibraryFill>("tk_cells_fill", stream, cells<uint64_t>(*to), value);
}

int tk_cells_copy(const tk_cells* from, const tk_cells* to, cudaStream_t stream) {
  return launch_library<LibraryCopy>("tk_cells_copy", stream, cells<const float>(*from),
                                     cells<uint64_t>(*to));
}

int tk_cells_add_index_tuple(const tk_cells* on, cudaStream_t stream) {
  return launch_library<LibraryAddIndexTuple>("tk_cells_add_index_tuple", stream,
                                              cells<uint64_t>(*on));
}

int tk_copy(uint64_t* to, const uint64_t* from, size_t count, cudaStream_t stream) {
  return launch<CopyOver>("tk_copy", count, stream, writes(to, count), reads(from, count));
}

int tk_check(const uint64_t* data, size_t count, uint64_t expected, uint64_t* mismatches,
             cudaStream_t stream) {
  return launch<Compare>("tk_check", count, stream, reads(data, count), expected,
                         changes(mismatches, 1));
}

int tk_spin(uint64_t us, cudaStream_t stream) { return launch<Spin>("tk_spin", 1, stream, us); }

int tk_count(uint64_t* counter, uint64_t us, cudaStream_t stream) {
  return launch<CountUp>("tk_count", 1, stream, changes(counter, 1), us);
}

int tk_gate(const uint32_t* flag, cudaStream_t stream) {
  return launch<Gate>("tk_gate", 1, stream, reads(flag, 1));
}

int tk_stamp(uint64_t* ns, cudaStream_t stream) {
  return launch<Stamp>("tk_stamp", 1, stream, writes(ns, 1));
}
