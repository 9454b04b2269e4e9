#include "server/core/figures.h"

#include <algorithm>
#include <bit>

#include "server/core/report.h"

namespace memlease::server {
namespace {

// About 50 microseconds of work: as long as a create waits at most.
constexpr std::size_t kArraysPerStep = 128;
constexpr std::size_t kSessionsPerStep = 128;

DeviceFigures memory_of(const Device& device) {
  DeviceFigures figures;
  figures.memory_limit_bytes = device.segments.memory_limit_bytes();
  figures.warm_bytes = device.segments.warm_bytes();
  // Arrays are charged before their memory is there.
  figures.kept_bytes = device.segments.kept_bytes();
  const std::uint64_t in_use_bytes =
      device.segments.memory_bytes() - figures.warm_bytes - figures.kept_bytes;
  figures.used_bytes = std::min(device.quota.used(Resource::kBytes), in_use_bytes);
  figures.free_bytes = in_use_bytes - figures.used_bytes;
  return figures;
}

}  // namespace

void FigureCollector::begin(const Broker& broker) {
  figures_.draining = broker.draining();
  for (const auto& [name, device] : broker.devices().all()) {
    figures_.devices.emplace(name, memory_of(device));
  }
  for (const Array* array : broker.catalog().all()) arrays_.push_back(array->id);
  for (const Session* session : broker.sessions().all()) sessions_.push_back(session->id);
}

bool FigureCollector::step(Broker& broker) {
  for (std::size_t i = 0; i < kArraysPerStep && next_array_ < arrays_.size(); ++i) {
    Array* const array = broker.catalog().find(arrays_[next_array_++]);
    if (array != nullptr) add(broker, *array);
  }
  if (next_array_ < arrays_.size()) return true;
  for (std::size_t i = 0; i < kSessionsPerStep && next_session_ < sessions_.size(); ++i) {
    Session* const session = broker.sessions().find(sessions_[next_session_++]);
    if (session != nullptr) add(broker, *session);
  }
  if (next_session_ < sessions_.size()) return true;
  figures_.totals = broker.totals();
  return false;
}

void FigureCollector::add(Broker& broker, Array& array) {
  broker.look(array);
  DeviceFigures& device = figures_.devices[array.kind->device];
  const std::uint64_t slots = array.slots.size();
  (array.withdrawn ? device.withdrawn_arrays : device.arrays) += 1;
  (array.withdrawn ? device.withdrawn_bytes : device.array_bytes) += array.slot_bytes * slots;
  device.added_slots += array.rare().added.size();
  device.added_bytes += array.slot_bytes * array.rare().added.size();
  const auto held = static_cast<std::uint64_t>(std::popcount(held_slots_of(broker, array)));
  device.held_slots += held;
  device.held_bytes += array.slot_bytes * held;
}

void FigureCollector::add(Broker& broker, Session& session) {
  broker.look(session);
  (session.connected ? figures_.sessions_connected : figures_.sessions_leaving) += 1;
  for (const auto& [id, membership] : session.memberships) {
    if (broker.rows().is_writing(membership)) ++figures_.writes_in_progress;
  }
}

}  // namespace memlease::server
