# memlease_warnings: linked PRIVATE by every target of ours. Generated code does not link it. The presets
# of development make errors of warnings (CMAKE_COMPILE_WARNING_AS_ERROR); who installs has a compiler
# that may know others.
add_library(memlease_warnings INTERFACE)
target_compile_options(memlease_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow
                                                   -Wnon-virtual-dtor -Wconversion)
# What GCC guesses here changes with its version and options: with sanitizers GCC 12 sees uses inside of
# its own <regex> and <functional>, without them GCC 14 of a std::optional that is empty, and GCC 13 a copy
# past the end inside of fmt 9.
target_compile_options(memlease_warnings INTERFACE
  -Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow)
# Of a file that is compiled together with others (CMAKE_UNITY_BUILD) GCC believes that it is a header.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(memlease_warnings INTERFACE -Wno-subobject-linkage)
endif()
