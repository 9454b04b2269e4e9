#pragma once

#define MEMLEASE_VERSION_MAJOR 0
#define MEMLEASE_VERSION_MINOR 1
#define MEMLEASE_VERSION_PATCH 0
#define MEMLEASE_VERSION "0.1.0"

// Marks what libmemlease.so exports.
#define MEMLEASE_API __attribute__((visibility("default")))

namespace memlease {
// "0.1.0": of the library that is loaded, which may be newer than these headers.
MEMLEASE_API const char* version() noexcept;
}  // namespace memlease
