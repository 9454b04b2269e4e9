// What the daemon does by itself, what the machine does to it, and what a hostile process asks for.
#include <algorithm>
#include <iterator>
#include <limits>

#include "server/core/figures.h"
#include "tests/simulation/command.h"
#include "tests/simulation/violation.h"
#include "wire/error.h"

namespace memlease::simulation {
namespace {

void work_off_ends(World& world, const Command& /*command*/) { world.broker.work_off_ends(); }

void look_for_unused(World& world, const Command& /*command*/) {
  world.broker.take_idle_slots();
  world.broker.give_back_unused();
}

void make_memory(World& world, const Command& command) {
  if (!world.waiting.empty()) world.grow(command.what % world.waiting.size());
}

// So many ways in which time passes, of which the first ones are jumps of a clock.
constexpr std::uint32_t kPassings = 6;
constexpr std::uint32_t kJumps = 2;

void pass_time(World& world, const Command& command) {
  constexpr std::uint64_t kHour = 3'600'000;
  constexpr std::uint64_t kTenYears = kHour * 24 * 3652;
  switch (command.how % kPassings) {
    case 0:  // the machine has slept
      world.clock.advance_ms(8 * kHour);
      break;
    case 1:  // somebody has set its clock
      world.clock.set_unix_ms(1'700'000'000'000 + command.what % 3 * kTenYears - kTenYears);
      break;
    default:
      world.clock.advance_ms(command.what % 150);
  }
}

void refuse_memory(World& world, const Command& command) {
  world.memory.refuse(1 + command.what % 6);
}

void have_own_memory(World& world, const Command& command) {
  world.has_memory = command.how % 4 != 0;
}

void read_settings(World& world, const Command& command) {
  choose_limits(command.what * std::uint64_t{1 << 20} + command.how, world.setup);
  world.books.limits_changed = true;
  world.broker.set_limits(world.setup.limits, world.setup.gpu_limits);
}

void let_gpu_go_on(World& world, const Command& command) {
  if (command.how % 2 == 0) world.let_gpu_go_on();
}

// Nonsense in its own rows, as no library writes it. From then on it does nothing more with arrays.
void scribble(World& world, const Command& command) {
  Process* const process = world.living(command.who);
  OpenedArray* const array = process == nullptr ? nullptr : World::opened(*process, command.what);
  if (array == nullptr || (array->reader_row == nullptr && array->writer_row == nullptr)) return;
  process->lies = true;
  for (auto& [id, opened] : process->arrays) {
    if (!opened.leases.empty() || opened.write) world.numbers_of(opened.id).spoilt = true;
    opened.leases.clear();
    opened.write.reset();
  }
  world.numbers_of(array->id).spoilt = true;
  const std::uint64_t words[] = {0,
                                 1,
                                 5,
                                 ~std::uint64_t{0},
                                 wire::kHandedOut | 7,
                                 wire::kWriting,
                                 wire::kLastVersion,
                                 wire::pack({9, 63}),
                                 wire::pack({3, 1})};
  std::uint64_t number = command.how;
  const auto word = [&] {
    number = number * 6364136223846793005 + 1442695040888963407;
    return words[(number >> 33) % std::size(words)];
  };
  for (std::uint32_t s = 0; s < array->layout.most; ++s) {
    if (array->reader_row != nullptr) {
      array->reader_row->holds()[s].store(static_cast<std::uint32_t>(word()));
    }
    if (array->writer_row != nullptr) array->writer_row->slot_words()[s].store(word());
  }
  if (array->writer_row == nullptr) return;
  array->writer_row->publication.store(word());
  array->writer_row->highest_used.store(word());
  array->writer_row->empty_writes.store(word());
  array->writer_row->copied_versions.store(word());
  array->writer_row->writing.store(static_cast<std::uint32_t>(word()));
}

// Any number: those of files of others, and those that there are not.
void fetch_any_file(World& world, const Command& command) {
  Process* const process = world.connected(command.who);
  if (process != nullptr) process->fetch(wire::FileId{1 + command.what % 40});
}

void import_memory(World& world, Process& process, const server::Array& array) {
  const wire::FileId file = array.slots[0].file;
  const auto memory = world.broker.imports().open_memory(world.session_of(process), file);
  if (!memory.ok()) return;
  require((rights_of(process.peer, array.domain) & 4) != 0, "who may not read imports nothing");
  process.imported_memory[wire::to_int(file)] = testing::FakeGpu::number_of(memory->handle);
}

// Of any array there, whether this process has it open or not.
void import(World& world, const Command& command) {
  Process* const process = world.connected(command.who);
  if (process == nullptr) return;
  for (const server::Array* array : world.broker.catalog().all()) {
    if (wire::is_host(*array->kind) || array->slots.empty()) continue;
    import_memory(world, *process, *array);
  }
}

void close_imports(World& world, const Command& command) {
  Process* const process = world.connected(command.who);
  if (process == nullptr) return;
  server::Session& session = world.session_of(*process);
  for (const auto& [file, number] : process->imported_memory) {
    world.broker.imports().close_memory(session, wire::FileId{file});
  }
  process->imported_memory.clear();
}

void take_figures(World& world, const Command& /*command*/) {
  server::FigureCollector collector;
  collector.begin(world.broker);
  while (collector.step(world.broker)) {
  }
  const server::Figures figures = collector.take();
  std::uint64_t arrays = 0;
  std::uint64_t bytes = 0;
  for (const auto& [name, device] : figures.devices) {
    arrays += device.arrays + device.withdrawn_arrays;
    bytes += device.array_bytes + device.withdrawn_bytes;
  }
  for (const server::Array* array : world.broker.catalog().all()) {
    bytes -= array->slot_bytes * array->slots.size();
  }
  require(arrays == world.broker.catalog().size() && bytes == 0, "figures have every array once");
  require(figures.sessions_connected + figures.sessions_leaving == world.broker.sessions().size(),
          "figures have every session once");
}

void drain(World& world, const Command& command) {
  if (command.how % 8 == 0) world.broker.drain();
}

}  // namespace

std::span<const Kind> daemon_kinds() {
  static constexpr Kind kKinds[] = {
      {"work off ends of sessions", 12, work_off_ends},
      {"look for what nobody uses", 8, look_for_unused},
      {"memory comes", 8, make_memory},
      {"time passes", 6, pass_time},
      {"memory will be refused", 5, refuse_memory},
      {"the core has memory of its own, or none", 3, have_own_memory},
      {"settings are read again", 2, read_settings},
      {"the GPU goes on", 5, let_gpu_go_on},
      {"scribble", 1, scribble},
      {"fetch any file", 3, fetch_any_file},
      {"import", 4, import},
      {"close imports", 2, close_imports},
      {"take figures", 2, take_figures},
      {"drain", 1, drain},
  };
  return kKinds;
}

bool is_jump(const Command& command) {
  return all_kinds()[command.kind].run == pass_time && command.how % kPassings < kJumps;
}

}  // namespace memlease::simulation
