/// The GPU's share of a step. Each call launches one kernel and returns CUDA's error, 0 for none;
/// `cells` and `next` are whole blocks with their halos, in the GPU's memory.
#pragma once

#include "cell.h"

struct CUstream_st;

namespace tsunami {

/// For each column the longest step that keeps it stable.
int launch_column_steps(const Shape& shape, const Cell* cells, double* steps_s,
                        CUstream_st* stream);

/// Own cells of `next` from those of `cells` and the halos in the south and north; sides are
/// closed.
int launch_advance(const Shape& shape, const Cell* cells, Cell* next, double step_s,
                   CUstream_st* stream);

int launch_surface(const Shape& shape, const Cell* cells, float* surface_m, CUstream_st* stream);

}  // namespace tsunami
