#include "host_solver.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace tsunami {

HostSolver::HostSolver(const Shape& shape, std::span<const float> bed_m)
    : Solver(shape), cells_(shape.cells()), rates_(shape.cells()) {
  if (shape.rows == 0 || shape.columns == 0 || !(shape.dx_m > 0) || !(shape.dy_m > 0)) {
    throw std::invalid_argument("a block needs at least one cell, each of positive size");
  }
  if (bed_m.size() != shape.rows * shape.columns) {
    throw std::invalid_argument("the bed has " + std::to_string(bed_m.size()) + " values, " +
                                std::to_string(shape.rows * shape.columns) + " are needed");
  }
  for (std::size_t r = 0; r < shape.rows; ++r) {
    for (std::size_t c = 0; c < shape.columns; ++c) {
      Cell& cell = at(r, c);
      cell.bed_m = static_cast<double>(bed_m[r * shape.columns + c]);
      cell.depth_m = std::max(0.0, -cell.bed_m);
    }
  }
  set_boundary({.southmost = row(1),
                .northmost = row(shape.rows),
                .south_halo = row(0),
                .north_halo = row(shape.rows + 1)});
}

double HostSolver::stable_step_s() {
  double step = std::numeric_limits<double>::infinity();
  for (std::size_t r = 0; r < rows(); ++r) {
    for (std::size_t c = 0; c < columns(); ++c) {
      step = std::min(step, tsunami::stable_step_s(at(r, c), shape()));
    }
  }
  return step;
}

void HostSolver::advance(double step_s) {
  close_sides();
  std::ranges::fill(rates_, Rate{});
  add_x_fluxes();
  add_y_fluxes();
  for (std::size_t r = 1; r <= rows(); ++r) {
    for (std::size_t c = 1; c <= columns(); ++c) {
      const std::size_t i = shape().index(r, c);
      cells_[i] = advanced(cells_[i], rates_[i], step_s);
    }
  }
}

void HostSolver::write_surface(float* out) {
  for (std::size_t r = 0; r < rows(); ++r) {
    for (std::size_t c = 0; c < columns(); ++c) *out++ = surface_m(at(r, c));
  }
}

void HostSolver::close_sides() {
  for (std::size_t r = 1; r <= rows(); ++r) {
    const std::span<Cell> cells = row(r);
    cells.front() = beyond(cells[1], &Cell::x_discharge, shape().edge);
    cells.back() = beyond(cells[columns()], &Cell::x_discharge, shape().edge);
  }
}

void HostSolver::add_x_fluxes() {
  const double dx_m = shape().dx_m;
  for (std::size_t r = 1; r <= rows(); ++r) {
    for (std::size_t c = 0; c <= columns(); ++c) {
      const std::size_t west = shape().index(r, c);
      const std::size_t east = west + 1;
      if (both_dry(cells_[west], cells_[east])) continue;
      const Flux flux = x_flux(cells_[west], cells_[east]);
      pass_east(rates_[west], flux, dx_m);
      pass_west(rates_[east], flux, dx_m);
    }
  }
}

void HostSolver::add_y_fluxes() {
  const double dy_m = shape().dy_m;
  for (std::size_t r = 0; r <= rows(); ++r) {
    for (std::size_t c = 1; c <= columns(); ++c) {
      const std::size_t south = shape().index(r, c);
      const std::size_t north = shape().index(r + 1, c);
      if (both_dry(cells_[south], cells_[north])) continue;
      const Flux flux = y_flux(cells_[south], cells_[north]);
      pass_north(rates_[south], flux, dy_m);
      pass_south(rates_[north], flux, dy_m);
    }
  }
}

}  // namespace tsunami
