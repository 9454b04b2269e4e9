// What so many of a hundred values do not exceed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace memlease::testing {

// The default of T where there are no values. Changes their order.
template <typename T>
T percentile(std::vector<T>& values, std::size_t percent) {
  if (values.empty()) return {};
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(values.size() * percent / 100);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace memlease::testing
