// Regions as Python says them, by NumPy's basic indexing: `np.s_[1:-1, :, 0]`.
#pragma once

#include <memlease/region.h>

#include <cstdint>
#include <string>
#include <vector>

#include "python/bindings/bindings.h"

namespace memlease::python {

// Null: all of the array `name`. Ranges that go beyond an axis are cut, as Python does it. Throws
// InvalidArgument: too many indices, a negative step, or what is not basic indexing. An index
// outside of its axis is refused where the region is used.
Region to_region(PyObject* key, const std::string& name, const std::vector<std::int64_t>& shape);

}  // namespace memlease::python
