// What programs write against the headers in CUDA. nvcc compiles it; nothing runs it.
#include <memlease/cuda_types.h>
#include <memlease/indexer.h>
#include <memlease/kernels.h>

#include <cstdint>

namespace {

// Adds the sum of its indices to each element.
template <typename Indexer>
__global__ void add_index_tuple(Indexer indexer) {
  using Index = typename Indexer::index_type;
  const Index step = static_cast<Index>(gridDim.x) * static_cast<Index>(blockDim.x);
  const Index first = static_cast<Index>(blockIdx.x) * static_cast<Index>(blockDim.x) +
                      static_cast<Index>(threadIdx.x);
  for (Index i = first; i < indexer.size(); i += step) {
    const auto at = indexer.get_indices(i);
    Index sum = 0;
    for (std::size_t dim = 0; dim < indexer.rank(); ++dim) sum += at[dim];
    indexer.element(i) += static_cast<float>(sum);
  }
}

#ifdef MEMLEASE_HAS_CUDA_MDSPAN
template <typename Indexer>
__global__ void scale(Indexer indexer, float factor) {
  const auto cells = indexer.cuda_mdspan();
  const auto row = static_cast<typename Indexer::index_type>(threadIdx.x);
  for (typename Indexer::index_type j = 0; j < cells.extent(1); ++j) cells(row, j) *= factor;
}
#else
#error "CUDA's headers have mdspan"
#endif

}  // namespace

static_assert(memlease::dtype_of<__half>() == memlease::DType{2, 16, 1});
static_assert(memlease::dtype_of<__nv_bfloat16>() == memlease::DType{4, 16, 1});

void add_index_tuple_to(const memlease::Span<float, 2>& span, cudaStream_t stream);
void add_index_tuple_to(const memlease::Span<float, 2>& span, cudaStream_t stream) {
  memlease::fill(span, 1.0F, stream);
  memlease::copy(memlease::Span<const float, 2>(span), span, stream);
  memlease::copy(memlease::Span<const std::int16_t, 2>(nullptr, {0, 4}, {8, 2}), span, stream);
  memlease::add_index_tuple(span, stream);
  const memlease::Span<__half, 2> halves(nullptr, {0, 4}, {8, 2});
  memlease::copy(memlease::Span<const float, 2>(span), halves, stream);
  memlease::add_index_tuple(halves, stream);
  memlease::visit_indexer(span, [stream](auto indexer) {
    add_index_tuple<<<160, 256, 0, stream>>>(indexer);
    scale<<<1, 32, 0, stream>>>(indexer, 2.0F);
  });
}
