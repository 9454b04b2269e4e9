// What a stream's wait for a word's value asks for.
#pragma once

#include <cuda.h>

#include "tests/support/fakecuda/layout.h"

namespace fakecuda {

inline bool word_answers(u64 value, u64 awaited, u32 condition) {
  switch (condition) {
    case CU_STREAM_WAIT_VALUE_EQ:
      return value == awaited;
    case CU_STREAM_WAIT_VALUE_AND:
      return (value & awaited) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
      return ~(value | awaited) != 0;
    default:  // greater or equal, on a circle
      return static_cast<std::int64_t>(value - awaited) >= 0;
  }
}

}  // namespace fakecuda
