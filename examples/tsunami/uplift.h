/// The earthquake of the example: a made-up one, on the continental slope off Vancouver Island.
///
/// Only the sea's first shape is invented; the ground it runs over is real. Not a forecast.
#pragma once

#include "host_solver.h"
#include "terrain.h"

namespace tsunami {

/// Lifts the sea over the slope and lowers it towards the coast, as a thrust along the margin does.
void raise_sea(HostSolver& solver, const Terrain& terrain, std::size_t first_row);

}  // namespace tsunami
