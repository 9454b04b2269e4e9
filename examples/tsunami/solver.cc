#include "solver.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace tsunami {

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

void Solver::close(std::span<const Cell> own, std::span<Cell> halo) const {
  std::ranges::transform(own, halo.begin(), [&](const Cell& cell) {
    return beyond(cell, &Cell::y_discharge, shape_.edge);
  });
}

}  // namespace tsunami
