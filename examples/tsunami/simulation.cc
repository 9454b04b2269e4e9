/// A tsunami over real ground on any number of MPI ranks; each publishes its part every step.
///
///   mpirun -n 2 tsunami_simulation [--device DEVICE] [--duration SECONDS] [--report FOLDER]
///                                  [--linger]
///   tsunami_simulation --check --device DEVICE
///
/// --device    what computes and has the surfaces: host (the default), or cuda:N: rank r takes the
///             (N + r)-th GPU, and ranks share GPUs if there are fewer
/// --check     only say whether that device can be used
/// --duration  simulated seconds (9000)
/// --report    folder for rank<r>.json: what was published, when and in which pages
/// --linger    keep the arrays after the last step until standard input closes
#include <memlease/memlease.h>
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "gpu_solver.h"
#include "host_solver.h"
#include "publisher.h"
#include "record.h"
#include "terrain.h"
#include "uplift.h"

namespace tsunami {
namespace {

constexpr std::string_view kHost = "host";

struct Options {
  std::string device{kHost};
  bool check = false;
  double duration_s = 9000;
  std::string report_folder;
  bool linger = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--linger") {
      options.linger = true;
    } else if (flag == "--check") {
      options.check = true;
    } else if (flag == "--device" && i + 1 < argc) {
      options.device = argv[++i];
    } else if (flag == "--duration" && i + 1 < argc) {
      options.duration_s = std::stod(argv[++i]);
    } else if (flag == "--report" && i + 1 < argc) {
      options.report_folder = argv[++i];
    } else {
      throw std::invalid_argument(
          "unknown or incomplete option '" + flag +
          "': known are --check, --device DEVICE, --duration SECONDS, --linger, --report FOLDER");
    }
  }
  if (!(options.duration_s > 0)) throw std::invalid_argument("--duration must be above 0");
  return options;
}

/// This process's place in the row of blocks, and what passes between the blocks.
class Ranks {
 public:
  Ranks() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &count_);
  }
  int rank() const { return rank_; }
  int count() const { return count_; }

  void exchange_halos(Solver& solver) const {
    const bool southmost = rank_ == 0;
    const bool northmost = rank_ == count_ - 1;
    const int south = southmost ? MPI_PROC_NULL : rank_ - 1;
    const int north = northmost ? MPI_PROC_NULL : rank_ + 1;
    send_receive(solver.northmost_row(), north, solver.south_halo(), south);
    send_receive(solver.southmost_row(), south, solver.north_halo(), north);
    if (southmost) solver.close_south();
    if (northmost) solver.close_north();
  }

  static double smallest(double value) {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    return value;
  }

  static void wait_for_all() { MPI_Barrier(MPI_COMM_WORLD); }

 private:
  static void send_receive(std::span<const Cell> out, int to, std::span<Cell> in, int from) {
    static_assert(sizeof(Cell) == 4 * sizeof(double));
    const int doubles = static_cast<int>(4 * out.size());
    MPI_Sendrecv(out.data(), doubles, MPI_DOUBLE, to, 0, in.data(), doubles, MPI_DOUBLE, from, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }

  int rank_ = 0;
  int count_ = 0;
};

void simulate(const Options& options, const Ranks& ranks, const memlease::Client& client) {
  const Terrain terrain(client);
  const RowRange rows = rows_of_block(terrain.rows(), static_cast<std::size_t>(ranks.count()),
                                      static_cast<std::size_t>(ranks.rank()));
  HostSolver start({.rows = rows.count,
                    .columns = terrain.columns(),
                    .dx_m = terrain.dx_m(),
                    .dy_m = terrain.dy_m()},
                   terrain.bed(rows));
  raise_sea(start, terrain, rows.first);

  Publisher::Block block{.rank = ranks.rank(), .rows = rows.count, .columns = terrain.columns()};
  std::unique_ptr<Solver> solver;
  if (options.device == kHost) {
    solver = std::make_unique<HostSolver>(std::move(start));
  } else {
    const int gpu = gpu_of_rank(options.device, ranks.rank());
    solver = make_gpu_solver(start, gpu);
    block.device = "cuda:" + std::to_string(gpu);
    block.stream = solver->stream();
  }
  Publisher publisher(client, block);
  Ranks::wait_for_all();  // every surface exists before the first version does
  Record record;
  for (double time_s = 0;;) {
    float* const surface = publisher.begin_step();
    solver->write_surface(surface);
    publisher.publish(time_s, options.duration_s);
    record.note(options.device == kHost ? surface : nullptr);
    if (time_s >= options.duration_s) break;

    const double stable_s = solver->stable_step_s();
    ranks.exchange_halos(*solver);
    const double left_s = options.duration_s - time_s;
    const double step_s = std::min(left_s, Ranks::smallest(stable_s));
    solver->advance(step_s);
    time_s = step_s < left_s ? time_s + step_s : options.duration_s;
  }

  if (!options.report_folder.empty()) {
    record.save(options.report_folder, ranks.rank(), client.copies());
  }
  if (options.linger && ranks.rank() == 0) {
    while (std::getchar() != EOF) continue;
  }
  Ranks::wait_for_all();
}

}  // namespace
}  // namespace tsunami

int main(int argc, char** argv) {
  try {
    const tsunami::Options options = tsunami::parse(argc, argv);
    if (options.device != tsunami::kHost) tsunami::gpu_of_rank(options.device, 0);
    if (options.check) return 0;
    MPI_Init(&argc, &argv);
    const auto client = memlease::Client::connect();
    tsunami::simulate(options, tsunami::Ranks(), client);
    client.close();
    MPI_Finalize();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tsunami_simulation: %s\n", error.what());
    int has_begun = 0;
    MPI_Initialized(&has_begun);
    // The other ranks would wait for this one for ever.
    if (has_begun != 0) MPI_Abort(MPI_COMM_WORLD, 1);
    return 1;
  }
}
