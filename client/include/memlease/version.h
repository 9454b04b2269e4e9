#pragma once

#include <cstddef>  // which says how the standard library is compiled

// The library has been compiled without: vectors and strings in calls to it would be other types.
#if defined(_GLIBCXX_DEBUG)
#error \
    "memlease: _GLIBCXX_DEBUG changes std::vector and others, which libmemlease.so does not share: \
compile with -D_GLIBCXX_ASSERTIONS instead, which checks as many accesses and changes no type"
#endif

#define MEMLEASE_VERSION_MAJOR 0
#define MEMLEASE_VERSION_MINOR 1
#define MEMLEASE_VERSION_PATCH 0
#define MEMLEASE_VERSION "0.1.0"

// Marks what libmemlease.so exports.
#define MEMLEASE_API __attribute__((visibility("default")))

// Marks a result that is used up with the object that gave it; clang warns where it is used later.
#if defined(__clang__)
#define MEMLEASE_LIFETIMEBOUND [[clang::lifetimebound]]
#else
#define MEMLEASE_LIFETIMEBOUND
#endif

namespace memlease {
// "0.1.0": of the library that is loaded, which may be newer than these headers.
MEMLEASE_API const char* version() noexcept;
}  // namespace memlease
