/// What happens to one cell in a step: the arithmetic of all solvers, written once, so that those
/// on the host and those on a GPU give the same numbers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#ifdef __CUDACC__
#define TSUNAMI_BOTH __host__ __device__
#else
#define TSUNAMI_BOTH
#endif

namespace tsunami {

/// One cell's state. The surface stands at bed_m + depth_m; sea level is 0.
struct Cell {
  double depth_m = 0;
  double x_discharge = 0;  ///< depth times velocity to the east, m²/s
  double y_discharge = 0;  ///< depth times velocity to the north, m²/s
  double bed_m = 0;
};

/// What lies beyond an outer side of the grid: a sea at rest, into which waves leave, or a wall
/// that throws them back.
enum class Edge { kOpen, kWall };

/// A block of rows, which is kept with one halo cell on every side.
struct Shape {
  std::size_t rows;
  std::size_t columns;
  double dx_m;
  double dy_m;
  Edge edge = Edge::kOpen;

  TSUNAMI_BOTH std::size_t stride() const { return columns + 2; }
  TSUNAMI_BOTH std::size_t cells() const { return (rows + 2) * stride(); }
  /// The own cells begin at row 1 and column 1.
  TSUNAMI_BOTH std::size_t index(std::size_t row, std::size_t column) const {
    return row * stride() + column;
  }
};

/// How fast a cell's state changes.
struct Rate {
  double depth = 0;
  double x_discharge = 0;
  double y_discharge = 0;
};

/// Below this depth a cell counts as dry: its water is kept, but does not flow.
inline constexpr double kDryDepth_m = 1e-3;

namespace internal {

inline constexpr double kGravity = 9.81;
inline constexpr double kManning = 0.025;       // natural sea bed and beaches, s/m^(1/3)
inline constexpr double kFrictionDepth_m = 50;  // deeper down friction changes nothing to be seen
// In two dimensions each direction may use half of what one dimension allows.
inline constexpr double kCourant = 0.45;

/// One side of a face, seen along its normal.
struct Side {
  double depth;
  double bed;
  double normal;      // velocity through the face
  double transverse;  // velocity along the face
};

TSUNAMI_BOTH inline double velocity(double discharge, double depth) {
  return depth > kDryDepth_m ? discharge / depth : 0.0;
}

TSUNAMI_BOTH inline Side x_side(const Cell& cell) {
  return {cell.depth_m, cell.bed_m, velocity(cell.x_discharge, cell.depth_m),
          velocity(cell.y_discharge, cell.depth_m)};
}

TSUNAMI_BOTH inline Side y_side(const Cell& cell) {
  return {cell.depth_m, cell.bed_m, velocity(cell.y_discharge, cell.depth_m),
          velocity(cell.x_discharge, cell.depth_m)};
}

}  // namespace internal

/// What passes a face. The normal momentum differs between the two sides by the push of the bed's
/// step; each side's share leaves out its own hydrostatic pressure, which cancels over the cell.
struct Flux {
  double mass = 0;
  double normal_low = 0;
  double normal_high = 0;
  double transverse = 0;
};

namespace internal {

/// `low` lies to the west or south of `high`.
TSUNAMI_BOTH inline Flux flux_between(const Side& low, const Side& high) {
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

}  // namespace internal

/// Most faces of a coastal grid lie between dry cells; nothing passes there.
TSUNAMI_BOTH inline bool both_dry(const Cell& low, const Cell& high) {
  return low.depth_m <= 0 && high.depth_m <= 0;
}

TSUNAMI_BOTH inline Flux x_flux(const Cell& west, const Cell& east) {
  return internal::flux_between(internal::x_side(west), internal::x_side(east));
}

TSUNAMI_BOTH inline Flux y_flux(const Cell& south, const Cell& north) {
  return internal::flux_between(internal::y_side(south), internal::y_side(north));
}

/// What a face's flux does to the cell on one side of it. A cell's four faces come in the order
/// west, east, south, north, since sums depend on it in their last bit.
TSUNAMI_BOTH inline void pass_west(Rate& rate, const Flux& flux, double dx_m) {
  rate.depth += flux.mass / dx_m;
  rate.x_discharge += flux.normal_high / dx_m;
  rate.y_discharge += flux.transverse / dx_m;
}

TSUNAMI_BOTH inline void pass_east(Rate& rate, const Flux& flux, double dx_m) {
  rate.depth -= flux.mass / dx_m;
  rate.x_discharge -= flux.normal_low / dx_m;
  rate.y_discharge -= flux.transverse / dx_m;
}

TSUNAMI_BOTH inline void pass_south(Rate& rate, const Flux& flux, double dy_m) {
  rate.depth += flux.mass / dy_m;
  rate.y_discharge += flux.normal_high / dy_m;
  rate.x_discharge += flux.transverse / dy_m;
}

TSUNAMI_BOTH inline void pass_north(Rate& rate, const Flux& flux, double dy_m) {
  rate.depth -= flux.mass / dy_m;
  rate.y_discharge -= flux.normal_low / dy_m;
  rate.x_discharge -= flux.transverse / dy_m;
}

/// The halo cell beside an outermost own cell. A sea at rest swallows what arrives and holds the
/// level; merely repeating the own cell outside would let a deep corner drain away.
TSUNAMI_BOTH inline Cell beyond(const Cell& own, double Cell::* normal_discharge, Edge edge) {
  if (edge == Edge::kOpen) {
    return {.depth_m = std::max(0.0, -own.bed_m), .bed_m = own.bed_m};
  }
  Cell mirrored = own;
  mirrored.*normal_discharge = -(own.*normal_discharge);
  return mirrored;
}

/// The longest step that keeps this cell stable; infinite where it is dry.
TSUNAMI_BOTH inline double stable_step_s(const Cell& cell, const Shape& shape) {
  if (cell.depth_m <= kDryDepth_m) return std::numeric_limits<double>::infinity();
  const double celerity = std::sqrt(internal::kGravity * cell.depth_m);
  const double x_speed = std::abs(cell.x_discharge) / cell.depth_m + celerity;
  const double y_speed = std::abs(cell.y_discharge) / cell.depth_m + celerity;
  return internal::kCourant * std::min(shape.dx_m / x_speed, shape.dy_m / y_speed);
}

/// The cell after a step.
TSUNAMI_BOTH inline Cell advanced(Cell cell, const Rate& rate, double step_s) {
  cell.depth_m += step_s * rate.depth;
  if (cell.depth_m <= kDryDepth_m) {
    cell.depth_m = std::max(0.0, cell.depth_m);  // rounding may reach below 0
    cell.x_discharge = cell.y_discharge = 0;
    return cell;
  }
  cell.x_discharge += step_s * rate.x_discharge;
  cell.y_discharge += step_s * rate.y_discharge;
  if (cell.depth_m > internal::kFrictionDepth_m) return cell;
  // Implicit, so that friction slows thin water and never turns it round.
  const double speed = std::hypot(cell.x_discharge, cell.y_discharge) / cell.depth_m;
  const double drag = internal::kGravity * internal::kManning * internal::kManning * speed /
                      (cell.depth_m * std::cbrt(cell.depth_m));
  cell.x_discharge /= 1 + step_s * drag;
  cell.y_discharge /= 1 + step_s * drag;
  return cell;
}

/// Metres above sea level; NaN where the ground is dry.
TSUNAMI_BOTH inline float surface_m(const Cell& cell) {
  return cell.depth_m > kDryDepth_m ? static_cast<float>(cell.bed_m + cell.depth_m)
                                    : std::numeric_limits<float>::quiet_NaN();
}

}  // namespace tsunami
