// The dtype of a type that the command line names.
#include <memlease/dtype.h>

constexpr memlease::DType kDtype = memlease::dtype_of<MEMLEASE_TYPE>();
