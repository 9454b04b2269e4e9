#include "solver.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace tsunami {
namespace {

constexpr double kGravity = 9.81;
constexpr double kManning = 0.025;       // natural sea bed and beaches, s/m^(1/3)
constexpr double kFrictionDepth_m = 50;  // deeper down friction changes nothing one could see
// In two dimensions each direction may use half of what one dimension allows.
constexpr double kCourant = 0.45;

/// One side of a face, seen along its normal.
struct Side {
  double depth;
  double bed;
  double normal;      // velocity through the face
  double transverse;  // velocity along the face
};

/// What passes a face. The normal momentum differs between the two sides by the push of the bed's
/// step; each side's share leaves out its own hydrostatic pressure, which cancels over the cell.
struct Flux {
  double mass = 0;
  double normal_low = 0;
  double normal_high = 0;
  double transverse = 0;
};

double velocity(double discharge, double depth) {
  return depth > kDryDepth_m ? discharge / depth : 0.0;
}

/// Most faces of a coastal grid lie between dry cells; nothing passes there.
bool both_dry(const Cell& low, const Cell& high) { return low.depth_m <= 0 && high.depth_m <= 0; }

Side x_side(const Cell& cell) {
  return {cell.depth_m, cell.bed_m, velocity(cell.x_discharge, cell.depth_m),
          velocity(cell.y_discharge, cell.depth_m)};
}

Side y_side(const Cell& cell) {
  return {cell.depth_m, cell.bed_m, velocity(cell.y_discharge, cell.depth_m),
          velocity(cell.x_discharge, cell.depth_m)};
}

/// `low` lies to the west or south of `high`.
Flux flux_between(const Side& low, const Side& high) {
  const double sill = std::max(low.bed, high.bed);
  const double depth_low = std::max(0.0, low.depth + low.bed - sill);
  const double depth_high = std::max(0.0, high.depth + high.bed - sill);
  if (depth_low <= 0 && depth_high <= 0) return {};

  const double celerity_low = std::sqrt(kGravity * depth_low);
  const double celerity_high = std::sqrt(kGravity * depth_high);
  double slowest = std::min(low.normal - celerity_low, high.normal - celerity_high);
  double fastest = std::max(low.normal + celerity_low, high.normal + celerity_high);
  if (depth_low <= 0) slowest = high.normal - 2 * celerity_high;  // water meets dry ground
  if (depth_high <= 0) fastest = low.normal + 2 * celerity_low;
  slowest = std::min(slowest, 0.0);
  fastest = std::max(fastest, 0.0);
  if (fastest - slowest <= 0) return {};

  const double discharge_low = depth_low * low.normal;
  const double discharge_high = depth_high * high.normal;
  const double pressure_low = kGravity / 2 * depth_low * depth_low;
  const double pressure_high = kGravity / 2 * depth_high * depth_high;
  const double scale = 1 / (fastest - slowest);
  const double spread = fastest * slowest * scale;
  const double from_low = fastest * scale;
  const double from_high = -slowest * scale;

  Flux flux;
  flux.mass =
      from_low * discharge_low + from_high * discharge_high + spread * (depth_high - depth_low);
  const double moved = from_low * discharge_low * low.normal +
                       from_high * discharge_high * high.normal +
                       spread * (discharge_high - discharge_low);
  // Pressure minus each side's own: exactly 0 for water at rest, without any rounding.
  flux.normal_low = moved + from_high * (pressure_high - pressure_low);
  flux.normal_high = moved + from_low * (pressure_low - pressure_high);
  flux.transverse = flux.mass * (flux.mass > 0 ? low.transverse : high.transverse);
  return flux;
}

}  // namespace

RowRange rows_of_block(std::size_t rows, std::size_t blocks, std::size_t block) {
  if (blocks == 0 || block >= blocks || rows < blocks) {
    throw std::invalid_argument("cannot cut " + std::to_string(rows) + " rows into " +
                                std::to_string(blocks) +
                                " blocks: each needs a row; start fewer ranks");
  }
  const std::size_t share = rows / blocks;
  const std::size_t rest = rows % blocks;
  return {block * share + std::min(block, rest), share + (block < rest ? 1 : 0)};
}

Solver::Solver(const Shape& shape, std::span<const float> bed_m)
    : shape_(shape),
      cells_((shape.rows + 2) * (shape.columns + 2)),
      rates_((shape.rows + 2) * (shape.columns + 2)) {
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
}

/// The halo cell beside an outermost own cell. A sea at rest swallows what arrives and holds the
/// level; merely repeating the own cell outside would let a deep corner drain away.
Cell Solver::beyond(const Cell& own, double Cell::* normal_discharge) const {
  if (shape_.edge == Edge::kOpen) {
    return {.depth_m = std::max(0.0, -own.bed_m), .bed_m = own.bed_m};
  }
  Cell mirrored = own;
  mirrored.*normal_discharge = -(own.*normal_discharge);
  return mirrored;
}

void Solver::close_south() {
  std::ranges::transform(southmost_row(), south_halo().begin(),
                         [&](const Cell& own) { return beyond(own, &Cell::y_discharge); });
}

void Solver::close_north() {
  std::ranges::transform(northmost_row(), north_halo().begin(),
                         [&](const Cell& own) { return beyond(own, &Cell::y_discharge); });
}

void Solver::close_sides() {
  for (std::size_t r = 1; r <= shape_.rows; ++r) {
    const std::span<Cell> cells = row(r);
    cells.front() = beyond(cells[1], &Cell::x_discharge);
    cells.back() = beyond(cells[shape_.columns], &Cell::x_discharge);
  }
}

double Solver::stable_step_s() const {
  double step = std::numeric_limits<double>::infinity();
  for (std::size_t r = 0; r < shape_.rows; ++r) {
    for (std::size_t c = 0; c < shape_.columns; ++c) {
      const Cell& cell = at(r, c);
      if (cell.depth_m <= kDryDepth_m) continue;
      const double celerity = std::sqrt(kGravity * cell.depth_m);
      const double x_speed = std::abs(cell.x_discharge) / cell.depth_m + celerity;
      const double y_speed = std::abs(cell.y_discharge) / cell.depth_m + celerity;
      step = std::min({step, shape_.dx_m / x_speed, shape_.dy_m / y_speed});
    }
  }
  return kCourant * step;
}

void Solver::advance(double step_s) {
  close_sides();
  std::ranges::fill(rates_, Rate{});
  add_x_fluxes();
  add_y_fluxes();
  update(step_s);
}

void Solver::add_x_fluxes() {
  for (std::size_t r = 1; r <= shape_.rows; ++r) {
    for (std::size_t c = 0; c <= shape_.columns; ++c) {
      const std::size_t west = index(r, c);
      const std::size_t east = west + 1;
      if (both_dry(cells_[west], cells_[east])) continue;
      const Flux flux = flux_between(x_side(cells_[west]), x_side(cells_[east]));
      rates_[west].depth -= flux.mass / shape_.dx_m;
      rates_[west].x_discharge -= flux.normal_low / shape_.dx_m;
      rates_[west].y_discharge -= flux.transverse / shape_.dx_m;
      rates_[east].depth += flux.mass / shape_.dx_m;
      rates_[east].x_discharge += flux.normal_high / shape_.dx_m;
      rates_[east].y_discharge += flux.transverse / shape_.dx_m;
    }
  }
}

void Solver::add_y_fluxes() {
  for (std::size_t r = 0; r <= shape_.rows; ++r) {
    for (std::size_t c = 1; c <= shape_.columns; ++c) {
      const std::size_t south = index(r, c);
      const std::size_t north = index(r + 1, c);
      if (both_dry(cells_[south], cells_[north])) continue;
      const Flux flux = flux_between(y_side(cells_[south]), y_side(cells_[north]));
      rates_[south].depth -= flux.mass / shape_.dy_m;
      rates_[south].y_discharge -= flux.normal_low / shape_.dy_m;
      rates_[south].x_discharge -= flux.transverse / shape_.dy_m;
      rates_[north].depth += flux.mass / shape_.dy_m;
      rates_[north].y_discharge += flux.normal_high / shape_.dy_m;
      rates_[north].x_discharge += flux.transverse / shape_.dy_m;
    }
  }
}

void Solver::update(double step_s) {
  for (std::size_t r = 1; r <= shape_.rows; ++r) {
    for (std::size_t c = 1; c <= shape_.columns; ++c) {
      Cell& cell = cells_[index(r, c)];
      const Rate& rate = rates_[index(r, c)];
      cell.depth_m += step_s * rate.depth;
      if (cell.depth_m <= kDryDepth_m) {
        cell.depth_m = std::max(0.0, cell.depth_m);  // rounding may reach below 0
        cell.x_discharge = cell.y_discharge = 0;
        continue;
      }
      cell.x_discharge += step_s * rate.x_discharge;
      cell.y_discharge += step_s * rate.y_discharge;
      if (cell.depth_m > kFrictionDepth_m) continue;
      // Implicit, so that friction slows thin water and never turns it round.
      const double speed = std::hypot(cell.x_discharge, cell.y_discharge) / cell.depth_m;
      const double drag =
          kGravity * kManning * kManning * speed / (cell.depth_m * std::cbrt(cell.depth_m));
      cell.x_discharge /= 1 + step_s * drag;
      cell.y_discharge /= 1 + step_s * drag;
    }
  }
}

}  // namespace tsunami
