// What a simulation throws where something does not hold that must.
#pragma once

#include <stdexcept>
#include <string>

namespace memlease::simulation {

class Violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void violated(const std::string& what) { throw Violation(what); }

// Where there is no more to say than which promise it is.
inline void require(bool holds, const char* promise) {
  if (!holds) violated(promise);
}

}  // namespace memlease::simulation
