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

#include <memlease/kernels_host.h>

#if defined(__CUDACC__)
#include <memlease/kernels_cuda.h>
#endif
