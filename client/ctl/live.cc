#include "client/ctl/live.h"

#include <algorithm>
#include <utility>

namespace memlease::ctl {

void Live::add(const v1::SampleReply& sample, double seconds) {
  const std::uint64_t number = ++samples_;
  times_[number % kSamplesOfARate] = seconds;
  // Columns of a daemon that is not quite like this program.
  const int count =
      std::min({sample.array_ids_size(), sample.versions_size(), sample.writer_sessions_size(),
                sample.open_sessions_size(), sample.slots_size()});
  for (int i = 0; i < count; ++i) {
    LiveArray& array = array_of(sample.array_ids(i));
    array.version = sample.versions(i);
    array.writer_session = sample.writer_sessions(i);
    array.open_sessions = sample.open_sessions(i);
    array.slots = sample.slots(i);
    // An only slot whose write was dropped has no version; the numbers go on from there.
    array.newest_ = std::max(array.newest_, array.version);
    array.versions_[number % kSamplesOfARate] = array.newest_;
    array.last_sample_ = number;
    const std::uint64_t oldest =
        std::max(array.first_sample_, number - std::min(number, kSamplesOfARate - 1));
    const double time = seconds - times_[oldest % kSamplesOfARate];
    const std::uint64_t before = array.versions_[oldest % kSamplesOfARate];
    array.versions_per_s =
        oldest < number && time > 0 ? static_cast<double>(array.newest_ - before) / time : 0;
  }
  for (const v1::ArrayInfo& info : sample.described()) describe(info);
  forget_gone();
}

LiveArray& Live::array_of(std::uint64_t id) {
  const auto [place, is_new] = places_.try_emplace(id, arrays_.size());
  if (is_new) {
    arrays_.emplace_back().id = id;
    arrays_.back().first_sample_ = samples_;
  }
  return arrays_[place->second];
}

void Live::describe(const v1::ArrayInfo& info) {
  known_through_ = std::max(known_through_, info.array_id());
  const auto place = places_.find(info.array_id());
  if (place == places_.end()) return;
  LiveArray& array = arrays_[place->second];
  array.name = info.spec().name();
  array.device = info.spec().device();
  array.slot_bytes = info.slots() == 0 ? 0 : info.bytes() / info.slots();
}

void Live::forget_gone() {
  for (std::size_t i = 0; i < arrays_.size();) {
    if (arrays_[i].last_sample_ == samples_) {
      ++i;
      continue;
    }
    places_.erase(arrays_[i].id);
    if (i + 1 < arrays_.size()) {
      arrays_[i] = std::move(arrays_.back());
      places_[arrays_[i].id] = i;
    }
    arrays_.pop_back();
  }
}

}  // namespace memlease::ctl
