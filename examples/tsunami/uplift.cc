#include "uplift.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tsunami {
namespace {

constexpr double kLongitude = -125.55;
constexpr double kLatitude = 48.38;
constexpr double kStrike_deg = -40;  // of the margin, clockwise from north
constexpr double kAlong_m = 45e3;    // half lengths at which a lobe has fallen to 1/e
constexpr double kAcross_m = 16e3;
constexpr double kRise_m = 4.0;
constexpr double kFall_m = 1.6;
constexpr double kLobeDistance_m = 34e3;  // from the risen to the fallen lobe, towards the coast

double lobe(double along_m, double across_m) {
  const double a = along_m / kAlong_m;
  const double b = across_m / kAcross_m;
  return std::exp(-a * a - b * b);
}

/// Metres by which the sea stands above its level at a place given in metres from the centre.
double uplift_m(double east_m, double north_m) {
  constexpr double kStrike = kStrike_deg * std::numbers::pi / 180;
  const double along_m = east_m * std::sin(kStrike) + north_m * std::cos(kStrike);
  const double across_m = east_m * std::cos(kStrike) - north_m * std::sin(kStrike);
  return kRise_m * lobe(along_m, across_m) - kFall_m * lobe(along_m, across_m - kLobeDistance_m);
}

}  // namespace

void raise_sea(HostSolver& solver, const Terrain& terrain, std::size_t first_row) {
  const auto [centre_x, centre_y] = terrain.metres_of(kLongitude, kLatitude);
  for (std::size_t r = 0; r < solver.rows(); ++r) {
    for (std::size_t c = 0; c < solver.columns(); ++c) {
      Cell& cell = solver.at(r, c);
      if (cell.depth_m <= kDryDepth_m) continue;
      const double x = static_cast<double>(c) * terrain.dx_m();
      const double y = static_cast<double>(first_row + r) * terrain.dy_m();
      const double rise = uplift_m(x - centre_x, y - centre_y);
      cell.depth_m = std::max(0.0, cell.depth_m + rise);
    }
  }
}

}  // namespace tsunami
