/// A shallow-water solver for one block of rows of a plain, evenly spaced grid.
///
/// Finite volumes of first order: HLL fluxes between states reconstructed hydrostatically at each
/// face (Audusse et al., 2004). That makes it exactly what a tsunami over real ground needs:
///   - water at rest stays at rest, whatever the bed looks like and wherever the shore runs;
///   - depths never become negative while steps stay within stable_step_s(), so land may flood
///     and fall dry again;
///   - water leaves a cell only into its neighbour, so the volume is kept.
/// A run gives the same bits however many blocks the grid is cut into.
///
/// Knows nothing of MPI or memlease: whoever owns the blocks copies the halo rows between them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

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

/// The rows [first, first + count) of the whole grid that one of `blocks` blocks owns.
struct RowRange {
  std::size_t first;
  std::size_t count;
};
RowRange rows_of_block(std::size_t rows, std::size_t blocks, std::size_t block);

/// Below this depth a cell counts as dry: its water is kept, but does not flow.
inline constexpr double kDryDepth_m = 1e-3;

/// Not thread-safe. Rows run from south to north, columns from west to east.
class Solver {
 public:
  struct Shape {
    std::size_t rows;
    std::size_t columns;
    double dx_m;
    double dy_m;
    Edge edge = Edge::kOpen;
  };

  /// `bed_m` holds the block's own rows; wherever the bed is below sea level, still water fills it
  /// up to there.
  Solver(const Shape& shape, std::span<const float> bed_m);

  /// Own cell; row < rows(), column < columns().
  Cell& at(std::size_t row, std::size_t column) { return cells_[index(row + 1, column + 1)]; }
  const Cell& at(std::size_t row, std::size_t column) const {
    return cells_[index(row + 1, column + 1)];
  }
  std::size_t rows() const { return shape_.rows; }
  std::size_t columns() const { return shape_.columns; }

  /// What neighbours exchange before each advance(): a block's outermost own rows are its
  /// neighbours' halos. A halo that nobody fills is an outer edge: call close_south/north first.
  std::span<Cell> southmost_row() { return row(1); }
  std::span<Cell> northmost_row() { return row(shape_.rows); }
  std::span<Cell> south_halo() { return row(0); }
  std::span<Cell> north_halo() { return row(shape_.rows + 1); }

  /// Fills the halo from the own row beside it, as the grid's edge demands.
  void close_south();
  void close_north();

  /// The longest step that keeps this block stable and its depths positive; infinite when dry.
  /// Blocks of one grid must all take the smallest of theirs.
  double stable_step_s() const;

  /// Advances the block; both halos must be up to date.
  void advance(double step_s);

 private:
  struct Rate {
    double depth = 0;
    double x_discharge = 0;
    double y_discharge = 0;
  };

  std::size_t stride() const { return shape_.columns + 2; }
  std::size_t index(std::size_t row, std::size_t column) const { return row * stride() + column; }
  std::span<Cell> row(std::size_t row) { return {&cells_[index(row, 0)], stride()}; }

  Cell beyond(const Cell& own, double Cell::* normal_discharge) const;
  void close_sides();
  void add_x_fluxes();
  void add_y_fluxes();
  void update(double step_s);

  const Shape shape_;
  std::vector<Cell> cells_;  // with one halo cell on every side
  std::vector<Rate> rates_;  // scratch of one step, laid out as cells_
};

}  // namespace tsunami
