# memlease_precompile(<target>...): what nearly every file includes of others' headers is parsed once, for
# these libraries together. In builds of development alone: packages are made without, and tell of an
# include that is missing.
function(memlease_precompile)
  if(NOT CMAKE_UNITY_BUILD)
    return()
  endif()
  if(NOT TARGET memlease_headers)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/headers.cc CONTENT "")
    add_library(memlease_headers OBJECT ${PROJECT_BINARY_DIR}/headers.cc)
    target_link_libraries(memlease_headers PRIVATE memlease_absl memlease_fmt memlease_warnings)
    target_precompile_headers(memlease_headers PRIVATE
      <absl/cleanup/cleanup.h> <absl/functional/function_ref.h> <absl/status/statusor.h>
      <fmt/format.h> <fmt/ranges.h> <algorithm> <array> <atomic> <chrono> <fstream> <functional> <map>
      <memory> <optional> <span> <string> <string_view> <thread> <unordered_map> <utility> <variant>
      <vector>)
    memlease_compile_precompiled(memlease_headers)
  endif()
  foreach(target ${ARGV})
    target_precompile_headers(${target} REUSE_FROM memlease_headers)
    memlease_compile_precompiled(${target})
  endforeach()
endfunction()

# How every target with a precompiled header is compiled: with -pthread or without, it must be alike.
function(memlease_compile_precompiled target)
  target_compile_options(${target} PRIVATE -pthread)
  # Else ccache cannot tell what the header was made of.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -fpch-preprocess)
  endif()
endfunction()
