#include "server/device/left_mappings.h"

#include <sys/mman.h>

#include <algorithm>

namespace memlease::server {
namespace {

constexpr std::size_t kLooks = 16;  // some microseconds

}  // namespace

LeftMappings::~LeftMappings() {
  for (const Left& left : left_) unmap(left);
}

void LeftMappings::unmap(std::byte* data, std::uint64_t size_bytes, int watch) {
  std::vector<Left> looked_at{{data, size_bytes, watch}};
  bool one_goes = false;
  {
    const wire::MutexLock lock(mutex_);
    one_goes = left_.size() >= most_;
    for (std::size_t i = 0; i < kLooks && !left_.empty(); ++i, left_.pop_front()) {
      looked_at.push_back(left_.front());
    }
  }
  const auto stay =
      std::ranges::partition(looked_at, [&](const Left& left) { return !others_have(left); });
  const auto end = stay.begin() == looked_at.begin() && one_goes ? stay.begin() + 1 : stay.begin();
  std::for_each(looked_at.begin(), end, [&](const Left& left) { unmap(left); });
  const wire::MutexLock lock(mutex_);
  left_.insert(left_.end(), end, looked_at.end());
}

bool LeftMappings::others_have(const Left& left) const {
  return watch_->has_gone(left.watch, OpenFileWatch::Access::kRead) == false;
}

void LeftMappings::unmap(const Left& left) const {
  munmap(left.data, left.size_bytes);
  watch_->end(left.watch);
}

}  // namespace memlease::server
