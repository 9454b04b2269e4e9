/// What the tsunami example's solver promises: rest stays rest, water is kept and never negative,
/// waves run at the speed they should, and cutting the grid into blocks changes no bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <stdexcept>
#include <vector>

#include "examples/tsunami/host_solver.h"

namespace tsunami {
namespace {

constexpr std::size_t kRows = 40;
constexpr std::size_t kColumns = 60;

/// Sea, islands and steep coasts: rough enough that every kind of face occurs.
std::vector<float> rough_bed(std::size_t rows = kRows, std::size_t columns = kColumns) {
  std::mt19937 random(7);
  std::normal_distribution<float> roughness(0.0F, 30.0F);
  std::vector<float> bed(rows * columns);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      const double east = static_cast<double>(c) / static_cast<double>(columns);
      const double north = static_cast<double>(r) / static_cast<double>(rows);
      const double smooth = -400 + 500 * east + 80 * std::sin(9 * north);
      bed[r * columns + c] = static_cast<float>(smooth) + roughness(random);
    }
  }
  return bed;
}

Shape shape(Edge edge, std::size_t rows = kRows, std::size_t columns = kColumns) {
  return {.rows = rows, .columns = columns, .dx_m = 500, .dy_m = 450, .edge = edge};
}

void raise_hump(HostSolver& solver, double height_m, double centre_row, std::size_t first_row = 0) {
  for (std::size_t r = 0; r < solver.rows(); ++r) {
    for (std::size_t c = 0; c < solver.columns(); ++c) {
      const double y = (static_cast<double>(first_row + r) - centre_row) / 5;
      const double x = (static_cast<double>(c) - 15) / 5;
      Cell& cell = solver.at(r, c);
      if (cell.depth_m > 0) cell.depth_m += height_m * std::exp(-x * x - y * y);
    }
  }
}

void step(Solver& solver) {
  const double step_s = solver.stable_step_s();
  solver.close_south();
  solver.close_north();
  solver.advance(step_s);
}

template <typename Visit>
void for_each_cell(const HostSolver& solver, Visit visit) {
  for (std::size_t r = 0; r < solver.rows(); ++r) {
    for (std::size_t c = 0; c < solver.columns(); ++c) visit(solver.at(r, c));
  }
}

double volume(const HostSolver& solver) {
  double sum = 0;
  for_each_cell(solver, [&](const Cell& cell) { sum += cell.depth_m; });
  return sum;
}

class AtEveryEdge : public testing::TestWithParam<Edge> {};
INSTANTIATE_TEST_SUITE_P(Edges, AtEveryEdge, testing::Values(Edge::kOpen, Edge::kWall));

TEST_P(AtEveryEdge, WaterAtRestStaysAtRestOverARoughBed) {
  HostSolver solver(shape(GetParam()), rough_bed());
  for (int i = 0; i < 200; ++i) step(solver);
  for_each_cell(solver, [](const Cell& cell) {
    EXPECT_EQ(cell.depth_m, std::max(0.0, -cell.bed_m));
    EXPECT_EQ(cell.x_discharge, 0);
    EXPECT_EQ(cell.y_discharge, 0);
  });
}

TEST_P(AtEveryEdge, DepthsStayPositiveWhileAHighWaveRunsAshore) {
  HostSolver solver(shape(GetParam()), rough_bed());
  raise_hump(solver, 80, 20);
  bool flooded = false;
  for (int i = 0; i < 400; ++i) {
    step(solver);
    for_each_cell(solver, [&](const Cell& cell) {
      ASSERT_GE(cell.depth_m, 0);
      ASSERT_TRUE(std::isfinite(cell.x_discharge) && std::isfinite(cell.y_discharge));
      flooded = flooded || (cell.bed_m > 1 && cell.depth_m > 0.5);
    });
  }
  EXPECT_TRUE(flooded) << "the wave was meant to reach dry land";
}

TEST(TsunamiSolver, KeepsTheVolumeBetweenWalls) {
  HostSolver solver(shape(Edge::kWall), rough_bed());
  raise_hump(solver, 40, 20);
  const double before = volume(solver);
  for (int i = 0; i < 500; ++i) step(solver);
  EXPECT_NEAR(volume(solver) / before, 1, 1e-12);
}

TEST(TsunamiSolver, LetsTheWaveLeaveThroughAnOpenEdge) {
  HostSolver solver(shape(Edge::kOpen), std::vector<float>(kRows * kColumns, -200.0F));
  raise_hump(solver, 2, 20);
  for (int i = 0; i < 600; ++i) step(solver);
  double highest = 0;
  for_each_cell(solver, [&](const Cell& cell) {
    highest = std::max(highest, std::abs(cell.depth_m + cell.bed_m));
  });
  EXPECT_LT(highest, 0.02);
}

TEST(TsunamiSolver, TheSeaBesideAnOpenEdgeReturnsToItsLevel) {
  HostSolver solver(shape(Edge::kOpen), rough_bed());
  raise_hump(solver, 5, 20);
  for (int i = 0; i < 6000; ++i) step(solver);
  for_each_cell(solver, [](const Cell& cell) {
    if (cell.bed_m > -150) return;
    EXPECT_NEAR(cell.depth_m + cell.bed_m, 0, 0.02);
  });
}

TEST(TsunamiSolver, ALowWaveRunsAtTheSquareRootOfGravityTimesDepth) {
  constexpr std::size_t kLength = 600;
  constexpr double kDepth_m = 100;
  HostSolver solver({.rows = 3, .columns = kLength, .dx_m = 100, .dy_m = 100, .edge = Edge::kWall},
                    std::vector<float>(3 * kLength, static_cast<float>(-kDepth_m)));
  const double celerity = std::sqrt(9.81 * kDepth_m);
  for (std::size_t r = 0; r < 3; ++r) {
    for (std::size_t c = 0; c < kLength; ++c) {  // a simple wave that runs east only
      const double x = (static_cast<double>(c) - 150) / 40;
      const double rise = 0.01 * std::exp(-x * x);
      solver.at(r, c).depth_m += rise;
      solver.at(r, c).x_discharge = celerity * rise;
    }
  }
  double time_s = 0;
  while (time_s < 900) {
    const double dt = solver.stable_step_s();
    step(solver);
    time_s += dt;
  }
  std::size_t crest = 0;
  for (std::size_t c = 0; c < kLength; ++c) {
    if (solver.at(1, c).depth_m > solver.at(1, crest).depth_m) crest = c;
  }
  EXPECT_NEAR(static_cast<double>(crest), 150 + celerity * time_s / 100, 5);
}

TEST(TsunamiSolver, AnyNumberOfBlocksGivesTheSameBits) {
  const std::vector<float> bed = rough_bed();
  HostSolver whole(shape(Edge::kOpen), bed);
  raise_hump(whole, 60, 20);

  std::vector<HostSolver> blocks;
  std::vector<RowRange> ranges;
  for (std::size_t b = 0; b < 3; ++b) {
    const RowRange rows = rows_of_block(kRows, 3, b);
    const auto first = bed.begin() + static_cast<std::ptrdiff_t>(rows.first * kColumns);
    blocks.emplace_back(
        shape(Edge::kOpen, rows.count),
        std::vector<float>(first, first + static_cast<std::ptrdiff_t>(rows.count * kColumns)));
    raise_hump(blocks.back(), 60, 20, rows.first);
    ranges.push_back(rows);
  }

  for (int i = 0; i < 200; ++i) {
    const double dt = whole.stable_step_s();
    double smallest = blocks[0].stable_step_s();
    for (HostSolver& block : blocks) smallest = std::min(smallest, block.stable_step_s());
    ASSERT_EQ(dt, smallest);
    step(whole);
    blocks.front().close_south();
    blocks.back().close_north();
    for (std::size_t b = 0; b + 1 < blocks.size(); ++b) {
      std::ranges::copy(blocks[b].northmost_row(), blocks[b + 1].south_halo().begin());
      std::ranges::copy(blocks[b + 1].southmost_row(), blocks[b].north_halo().begin());
    }
    for (HostSolver& block : blocks) block.advance(dt);
  }
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    for (std::size_t r = 0; r < ranges[b].count; ++r) {
      for (std::size_t c = 0; c < kColumns; ++c) {
        ASSERT_EQ(blocks[b].at(r, c).depth_m, whole.at(ranges[b].first + r, c).depth_m);
      }
    }
  }
}

TEST(TsunamiSolver, BlocksCoverEveryRowOnce) {
  std::size_t next = 0;
  for (std::size_t b = 0; b < 7; ++b) {
    const RowRange rows = rows_of_block(40, 7, b);
    EXPECT_EQ(rows.first, next);
    EXPECT_GE(rows.count, 5U);
    next = rows.first + rows.count;
  }
  EXPECT_EQ(next, 40U);
  EXPECT_THROW(rows_of_block(2, 3, 0), std::invalid_argument);
}

TEST(TsunamiSolver, RefusesABedOfAnotherSize) {
  EXPECT_THROW(HostSolver(shape(Edge::kOpen), std::vector<float>(3)), std::invalid_argument);
}

}  // namespace
}  // namespace tsunami
