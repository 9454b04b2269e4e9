// Whether this process gets threads, before a library is asked that hangs or aborts without them.
#pragma once

#include <cstddef>
#include <latch>
#include <system_error>
#include <thread>
#include <vector>

namespace memlease::wire {

// Has so many at once, and ends them. Throws std::system_error if there are not as many.
inline void try_threads(std::size_t count) {
  struct Tried {
    std::latch all{1};
    std::vector<std::jthread> threads;
    ~Tried() { all.count_down(); }  // before they are joined
  } tried;
  while (tried.threads.size() < count) tried.threads.emplace_back([&] { tried.all.wait(); });
}

}  // namespace memlease::wire
