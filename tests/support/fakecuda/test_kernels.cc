// TK_LAUNCH names the header that launches: launch_stand_in.h, or launch_nvcc.h where nvcc compiles
// this file as CUDA.
#include "tests/support/fakecuda/test_kernels.h"

#include <memlease/span.h>

#include TK_LAUNCH

namespace {

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

}  // namespace

int tk_fill(uint64_t* data, size_t count, uint64_t value, cudaStream_t stream) {
  return launch<Fill>("tk_fill", count, stream, writes(data, count), value);
}

int tk_add(uint64_t* data, size_t count, uint64_t value, cudaStream_t stream) {
  return launch<Add>("tk_add", count, stream, changes(data, count), value);
}

int tk_add_index_tuple(uint64_t* data, const int64_t shape[3], cudaStream_t stream) {
  return add_index_tuple(memlease::Span<uint64_t, 3>(data, {shape[0], shape[1], shape[2]},
                                                     {shape[1] * shape[2] * 8, shape[2] * 8, 8}),
                         stream);
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
