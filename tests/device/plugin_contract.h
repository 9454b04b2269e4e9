// What every entry of libmemlease_cuda.so's table promises the thread that calls it, as checks that
// can be run on any table: on the library's, and on one with a flaw, which must not get by.
#pragma once

#include <string>
#include <vector>

#include "cuda/plugin.h"
#include "tests/support/fakecuda/private_world.h"

namespace memlease::testing {

// The caller's current context and capture mode are what they were, whatever they were; no context
// is made on a GPU that the call does not name; nobody's capture of a graph is lost. In words, what
// is not kept; empty if everything is. The world is fresh and has two GPUs.
std::vector<std::string> violations_of(const memlease_cuda_table& table,
                                       const fakecuda::PrivateWorld& world);

}  // namespace memlease::testing
