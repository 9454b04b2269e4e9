/// The solver whose work the processor does.
#pragma once

#include <span>
#include <vector>

#include "solver.h"

namespace tsunami {

class HostSolver final : public Solver {
 public:
  /// `bed_m` holds the block's own rows; wherever the bed is below sea level, still water fills it
  /// up to there. Throws std::invalid_argument if the two do not fit each other.
  HostSolver(const Shape& shape, std::span<const float> bed_m);
  HostSolver(HostSolver&&) = default;

  /// Own cell; row < rows(), column < columns().
  Cell& at(std::size_t row, std::size_t column) { return cells_[index(row, column)]; }
  const Cell& at(std::size_t row, std::size_t column) const { return cells_[index(row, column)]; }
  /// All cells, with the halos.
  std::span<const Cell> cells() const { return cells_; }

  double stable_step_s() override;
  void advance(double step_s) override;
  void write_surface(float* out) override;

 private:
  std::size_t index(std::size_t row, std::size_t column) const {
    return shape().index(row + 1, column + 1);
  }
  std::span<Cell> row(std::size_t row) {
    return {&cells_[shape().index(row, 0)], shape().stride()};
  }

  void close_sides();
  void add_x_fluxes();
  void add_y_fluxes();

  std::vector<Cell> cells_;
  std::vector<Rate> rates_;  // scratch of one step, laid out as cells_
};

}  // namespace tsunami
