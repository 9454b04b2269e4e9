/// The ground below the sea, as another process shared it: `tsunami/bed` (metres above sea level,
/// float32, rows from south to north), `tsunami/longitude` and `tsunami/latitude` (degrees,
/// float64). The ranks read the very bytes that process put there.
#pragma once

#include <memlease/memlease.h>

#include <cstddef>
#include <span>
#include <utility>

#include "solver.h"

namespace tsunami {

/// Holds its read leases as long as it lives.
class Terrain {
 public:
  /// Waits until the arrays exist. Throws std::runtime_error if they do not fit each other.
  explicit Terrain(const memlease::Client& client);

  std::size_t rows() const { return rows_; }
  std::size_t columns() const { return columns_; }
  double dx_m() const { return dx_m_; }
  double dy_m() const { return dy_m_; }

  /// The bed of the rows that a block owns.
  std::span<const float> bed(RowRange rows) const;

  /// Metres to the east and north of the grid's first cell.
  std::pair<double, double> metres_of(double longitude, double latitude) const;

 private:
  memlease::ReadLease bed_;
  std::size_t rows_;
  std::size_t columns_;
  double west_;  // degrees, of the first cell
  double south_;
  double metres_per_longitude_;  // at the middle latitude: the region is small enough to be flat
  double dx_m_;
  double dy_m_;
};

}  // namespace tsunami
