// The owner of one open array, which tells what the array wants of it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/arrays/array_owner.h"
#include "client/arrays/open_array.h"

namespace memlease::testing {

class FakeArrayOwner final : public internal::ArrayOwner {
 public:
  using ArrayOwner::ArrayOwner;

  std::shared_ptr<internal::OpenArray> handle_of(internal::OpenArray& /*array*/) override {
    ++handles_asked;
    return handle.lock();
  }
  void depart(const internal::Departure& departure, internal::GpuUse /*use*/) override {
    departed.push_back(departure);
  }

  using ArrayOwner::take_release;

  std::weak_ptr<internal::OpenArray> handle;  // the array's only one
  int handles_asked = 0;
  int deferred_released = 0;
  std::vector<internal::Departure> departed;

 private:
  void release_all_deferred() override { ++deferred_released; }
};

}  // namespace memlease::testing
