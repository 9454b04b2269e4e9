// Compiled by nvcc as CUDA. The tests compile it as C++, with a TSUNAMI_LAUNCH that needs no GPU.
#include "kernels.h"

#ifndef TSUNAMI_LAUNCH
#define TSUNAMI_LAUNCH "launch.h"
#endif
#include TSUNAMI_LAUNCH

namespace tsunami {
namespace {

/// Where the i-th own cell stands.
TSUNAMI_BOTH inline std::size_t own_cell(const Shape& shape, std::size_t i) {
  return shape.index(i / shape.columns + 1, i % shape.columns + 1);
}

struct ColumnSteps {
  TSUNAMI_BOTH static void at(std::size_t i, const Shape& shape, const Cell* cells,
                              double* steps_s) {
    double step_s = std::numeric_limits<double>::infinity();
    for (std::size_t r = 1; r <= shape.rows; ++r) {
      step_s = std::min(step_s, stable_step_s(cells[shape.index(r, i + 1)], shape));
    }
    steps_s[i] = step_s;
  }
};

// Each face is looked at twice, once from either side: cheaper than two kernels with rates between.
struct Advance {
  TSUNAMI_BOTH static void at(std::size_t i, const Shape& shape, const Cell* cells, Cell* next,
                              double step_s) {
    const std::size_t own = own_cell(shape, i);
    const std::size_t column = i % shape.columns;
    const Cell cell = cells[own];
    const Cell side = beyond(cell, &Cell::x_discharge, shape.edge);
    const Cell west = column == 0 ? side : cells[own - 1];
    const Cell east = column == shape.columns - 1 ? side : cells[own + 1];
    const Cell south = cells[own - shape.stride()];
    const Cell north = cells[own + shape.stride()];
    Rate rate;
    if (!both_dry(west, cell)) pass_west(rate, x_flux(west, cell), shape.dx_m);
    if (!both_dry(cell, east)) pass_east(rate, x_flux(cell, east), shape.dx_m);
    if (!both_dry(south, cell)) pass_south(rate, y_flux(south, cell), shape.dy_m);
    if (!both_dry(cell, north)) pass_north(rate, y_flux(cell, north), shape.dy_m);
    next[own] = advanced(cell, rate, step_s);
  }
};

struct Surface {
  TSUNAMI_BOTH static void at(std::size_t i, const Shape& shape, const Cell* cells, float* out) {
    out[i] = surface_m(cells[own_cell(shape, i)]);
  }
};

}  // namespace

int launch_column_steps(const Shape& shape, const Cell* cells, double* steps_s,
                        CUstream_st* stream) {
  return launch<ColumnSteps>("column_steps", shape.columns, stream, shape,
                             reads(cells, shape.cells()), writes(steps_s, shape.columns));
}

int launch_advance(const Shape& shape, const Cell* cells, Cell* next, double step_s,
                   CUstream_st* stream) {
  return launch<Advance>("advance", shape.rows * shape.columns, stream, shape,
                         reads(cells, shape.cells()), writes(next, shape.cells()), step_s);
}

int launch_surface(const Shape& shape, const Cell* cells, float* surface_m, CUstream_st* stream) {
  const std::size_t count = shape.rows * shape.columns;
  return launch<Surface>("surface", count, stream, shape, reads(cells, shape.cells()),
                         writes(surface_m, count));
}

}  // namespace tsunami
