#include "gpu_solver.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "kernels.h"

namespace tsunami {
namespace {

void check(int error, const char* what) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": CUDA says '" +
                           cudaGetErrorString(static_cast<cudaError_t>(error)) +
                           "'; nvidia-smi shows whether the GPU is well and has memory");
}

struct FreeDevice {
  void operator()(void* data) const { (void)cudaFree(data); }
};
struct FreePinned {
  void operator()(void* data) const { (void)cudaFreeHost(data); }
};
struct DestroyStream {
  void operator()(cudaStream_t stream) const {
    (void)cudaStreamSynchronize(stream);  // what it still has to do needs our memory
    (void)cudaStreamDestroy(stream);
  }
};
template <class T>
using OnDevice = std::unique_ptr<T, FreeDevice>;
/// Host memory that a GPU copies from and to while the host goes on.
template <class T>
using Pinned = std::unique_ptr<T, FreePinned>;

template <class T>
OnDevice<T> on_device(std::size_t count) {
  void* data = nullptr;
  check(cudaMalloc(&data, count * sizeof(T)), "no memory on the GPU for this rank's block");
  return OnDevice<T>(static_cast<T*>(data));
}

template <class T>
Pinned<T> pinned(std::size_t count) {
  void* data = nullptr;
  check(cudaHostAlloc(&data, count * sizeof(T), cudaHostAllocDefault),
        "no pinned memory for the rows between the ranks");
  return Pinned<T>(static_cast<T*>(data));
}

class GpuSolver final : public Solver {
 public:
  explicit GpuSolver(const HostSolver& start)
      : Solver(start.shape()),
        cells_(on_device<Cell>(shape().cells())),
        next_(on_device<Cell>(shape().cells())),
        column_steps_(on_device<double>(columns())),
        boundary_cells_(pinned<Cell>(4 * shape().stride())),
        column_steps_here_(pinned<double>(columns())) {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "no stream on the GPU");
    stream_.reset(stream);
    set_boundary({.southmost = boundary(0),
                  .northmost = boundary(1),
                  .south_halo = boundary(2),
                  .north_halo = boundary(3)});
    copy(cells_.get(), start.cells());
    copy(next_.get(), start.cells());  // kernels leave its sides alone, and rows travel with them
    check(cudaStreamSynchronize(stream), "the first copy to the GPU failed");
  }

  double stable_step_s() override {
    check(launch_column_steps(shape(), cells_.get(), column_steps_.get(), stream()),
          "the GPU did not take a kernel");
    copy(boundary_cells_.get(), row(1));
    copy(boundary_cells_.get() + shape().stride(), row(rows()));
    copy(column_steps_here_.get(), std::span<const double>(column_steps_.get(), columns()));
    check(cudaStreamSynchronize(stream()), "the GPU could not end a step");
    return *std::min_element(column_steps_here_.get(), column_steps_here_.get() + columns());
  }

  void advance(double step_s) override {
    copy(cells_.get(), south_halo());
    copy(cells_.get() + shape().index(rows() + 1, 0), north_halo());
    check(launch_advance(shape(), cells_.get(), next_.get(), step_s, stream()),
          "the GPU did not take a kernel");
    std::swap(cells_, next_);
  }

  void write_surface(float* out) override {
    check(launch_surface(shape(), cells_.get(), out, stream()), "the GPU did not take a kernel");
  }

  CUstream_st* stream() const override { return stream_.get(); }

 private:
  std::span<Cell> boundary(std::size_t number) {
    return {boundary_cells_.get() + number * shape().stride(), shape().stride()};
  }
  std::span<const Cell> row(std::size_t row) const {
    return {cells_.get() + shape().index(row, 0), shape().stride()};
  }

  /// From host to GPU or back, in the stream's order.
  template <class From>
  void copy(typename From::value_type* to, const From& from) {
    check(cudaMemcpyAsync(to, from.data(), from.size_bytes(), cudaMemcpyDefault, stream()),
          "the GPU did not take a copy");
  }

  OnDevice<Cell> cells_;
  OnDevice<Cell> next_;
  OnDevice<double> column_steps_;
  Pinned<Cell> boundary_cells_;
  Pinned<double> column_steps_here_;
  std::unique_ptr<CUstream_st, DestroyStream> stream_;  // the last, so that it ends first
};

}  // namespace

int gpu_of_rank(const std::string& device, int rank) {
  int gpus = 0;
  const cudaError_t error = cudaGetDeviceCount(&gpus);
  if (error != cudaSuccess || gpus == 0) {
    throw std::runtime_error(
        "--device " + device + ": there is no GPU that this process can use (CUDA says '" +
        cudaGetErrorString(error == cudaSuccess ? cudaErrorNoDevice : error) +
        "'); nvidia-smi shows the driver and its GPUs, and CUDA_VISIBLE_DEVICES may hide them; or "
        "leave --device out");
  }
  constexpr std::string_view kPrefix = "cuda:";
  int first = -1;
  if (device.starts_with(kPrefix)) {
    const char* const end = device.data() + device.size();
    if (std::from_chars(device.data() + kPrefix.size(), end, first).ptr != end) first = -1;
  }
  if (first < 0 || first >= gpus) {
    throw std::runtime_error("--device " + device + " is none of this process's " +
                             std::to_string(gpus) + " GPUs: give cuda:0 and so on, or host");
  }
  return (first + rank) % gpus;
}

std::unique_ptr<Solver> make_gpu_solver(const HostSolver& start, int gpu) {
  check(cudaSetDevice(gpu), "cannot use the GPU");
  return std::make_unique<GpuSolver>(start);
}

}  // namespace tsunami
