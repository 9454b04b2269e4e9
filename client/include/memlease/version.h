#pragma once

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
