// A view's index of a type that the command line names, and a view of a lease that has gone.
#include <memlease/memlease.h>

#ifdef MEMLEASE_TYPE
float element(const memlease::View<float, 1>& view, MEMLEASE_TYPE index) { return view(index); }
#else
auto dangling(const memlease::Array& array) { return array.read().MEMLEASE_CALL; }
#endif
