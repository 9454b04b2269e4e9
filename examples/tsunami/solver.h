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

#include "cell.h"

struct CUstream_st;  // what a cudaStream_t points to

namespace tsunami {

/// The rows [first, first + count) of the whole grid that one of `blocks` blocks owns.
struct RowRange {
  std::size_t first;
  std::size_t count;
};
RowRange rows_of_block(std::size_t rows, std::size_t blocks, std::size_t block);

/// Not thread-safe. Rows run from south to north, columns from west to east. A step is:
/// stable_step_s(), halos filled, advance().
class Solver {
 public:
  Solver(const Solver&) = delete;
  Solver& operator=(const Solver&) = delete;
  virtual ~Solver() = default;

  const Shape& shape() const { return shape_; }
  std::size_t rows() const { return shape_.rows; }
  std::size_t columns() const { return shape_.columns; }

  /// The longest step that keeps this block stable and its depths positive; infinite when dry.
  /// Blocks of one grid must all take the smallest of theirs. Once it has returned, the outermost
  /// rows are as the last advance() has left them.
  virtual double stable_step_s() = 0;

  /// What neighbours exchange before each advance(): a block's outermost own rows are its
  /// neighbours' halos. All four are in host memory.
  std::span<const Cell> southmost_row() const { return boundary_.southmost; }
  std::span<const Cell> northmost_row() const { return boundary_.northmost; }
  std::span<Cell> south_halo() { return boundary_.south_halo; }
  std::span<Cell> north_halo() { return boundary_.north_halo; }

  /// Fills a halo that no neighbour fills from the own row beside it, as the grid's edge demands.
  void close_south() { close(boundary_.southmost, boundary_.south_halo); }
  void close_north() { close(boundary_.northmost, boundary_.north_halo); }

  /// Advances the block; both halos must be up to date.
  virtual void advance(double step_s) = 0;

  /// Writes rows() x columns() values to where this solver works: host memory, or a GPU's.
  virtual void write_surface(float* out) = 0;

  /// The stream that all of a GPU's work goes to; null where the host does it.
  virtual CUstream_st* stream() const { return nullptr; }

 protected:
  struct Boundary {
    std::span<Cell> southmost;
    std::span<Cell> northmost;
    std::span<Cell> south_halo;
    std::span<Cell> north_halo;
  };

  explicit Solver(const Shape& shape) : shape_(shape) {}
  Solver(Solver&&) = default;
  void set_boundary(const Boundary& boundary) { boundary_ = boundary; }

 private:
  void close(std::span<const Cell> own, std::span<Cell> halo) const;

  const Shape shape_;
  Boundary boundary_;
};

}  // namespace tsunami
