// Publishes versions of a field on cuda:0, as a user's program does: a kernel writes each one in
// place, on a stream of the program's. Each element of a version is the version's number.
//
//   memlease_gpu_publisher NAME ROWS COLUMNS      COLUMNS is even
//
// It says "ready", as JSON. Each line of the standard input is how many versions to publish next;
// the answer is the number of the last one. It ends with its input, and its array with it.
#include <cuda_runtime_api.h>
#include <memlease/memlease.h>

#include <bit>
#include <cstdint>
#include <iostream>
#include <string>

#include "tests/support/fakecuda/test_kernels.h"

namespace {

void check_cuda(int error, const char* what) {
  if (error == cudaSuccess) return;
  const auto* name = cudaGetErrorName(static_cast<cudaError_t>(error));
  throw memlease::Internal(std::string(what) + ": " + std::to_string(error) + " " + name, "");
}

// Two elements.
std::uint64_t pair_of(float value) {
  const std::uint64_t bits = std::bit_cast<std::uint32_t>(value);
  return bits << 32 | bits;
}

std::uint64_t publish(const memlease::Array& field, cudaStream_t stream) {
  memlease::WriteOptions options;
  options.stream = stream;
  memlease::WriteLease lease = field.write(options);
  const auto value = static_cast<float>(lease.version());
  auto* pairs = static_cast<std::uint64_t*>(lease.data());
  check_cuda(tk_fill(pairs, field.size_bytes() / 8, pair_of(value), stream), "a kernel");
  return lease.publish(stream);
}

void serve(const std::string& name, std::int64_t rows, std::int64_t columns) {
  const auto client = memlease::Client::connect();
  const auto field =
      client.create({name, memlease::dtype_of<float>(), {rows, columns}, {}, "cuda:0", 4});
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  std::cout << "\"ready\"" << std::endl;
  std::uint64_t version = 0;
  for (int count = 0; std::cin >> count;) {
    for (int i = 0; i < count; ++i) version = publish(field, stream);
    std::cout << version << std::endl;
  }
  check_cuda(cudaStreamSynchronize(stream), "the stream");
  client.close();
  check_cuda(cudaStreamDestroy(stream), "the stream");
}

}  // namespace

int main(int, char** argv) try {
  serve(argv[1], std::stol(argv[2]), std::stol(argv[3]));
  return 0;
} catch (const memlease::Error& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
