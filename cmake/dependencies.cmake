# Finds what memlease is built on and says, for anything missing or too old, which package brings it.
# The versions are Debian 12's: the oldest that memlease is tested with.

# memlease_require(<package> <minimum, or ANY> <Debian package> [find_package arguments...])
macro(memlease_require package minimum debian)
  find_package(${package} QUIET ${ARGN})
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "memlease needs ${package} and CMake did not find it. "
                        "Run ./dev setup, or install Debian's ${debian}.")
  elseif(NOT "${minimum}" STREQUAL "ANY" AND "${${package}_VERSION}" VERSION_LESS "${minimum}")
    message(FATAL_ERROR "memlease needs ${package} ${minimum} or newer, and found "
                        "${${package}_VERSION}. Install a newer ${debian}.")
  endif()
  message(STATUS "${package} ${${package}_VERSION}")
endmacro()

# memlease_require_program(<variable> <program> <Debian package>)
function(memlease_require_program variable program debian)
  find_program(${variable} ${program})
  if(NOT ${variable})
    message(FATAL_ERROR "memlease needs the program ${program} and CMake did not find it. "
                        "Run ./dev setup, or install Debian's ${debian}.")
  endif()
endfunction()

memlease_require(Threads ANY build-essential)
# Debian's protobuf and its gRPC plugin come without CMake configuration of their own.
memlease_require(Protobuf 3.21 "libprotobuf-dev and protobuf-compiler" MODULE)
memlease_require(gRPC 1.51 libgrpc++-dev CONFIG)
memlease_require_program(MEMLEASE_GRPC_PLUGIN grpc_cpp_plugin protobuf-compiler-grpc)
memlease_require(absl 20220623 libabsl-dev CONFIG)
memlease_require(fmt 9.1 libfmt-dev CONFIG)
memlease_require(spdlog 1.10 libspdlog-dev CONFIG)
memlease_require(CLI11 2.1 libcli11-dev CONFIG)
memlease_require(tomlplusplus 3.3 libtomlplusplus-dev CONFIG)

if(MEMLEASE_BUILD_TESTS)
  memlease_require(GTest 1.12 "libgtest-dev and libgmock-dev" CONFIG)
  memlease_require(rapidcheck ANY librapidcheck-dev CONFIG)
  memlease_require_program(MEMLEASE_SPIN spin spin)
  memlease_require_program(MEMLEASE_SCDOC scdoc scdoc)
  memlease_require_program(MEMLEASE_MAN man man-db)
endif()

if(MEMLEASE_BUILD_BENCH)
  memlease_require(benchmark 1.7 libbenchmark-dev CONFIG)
endif()

if(MEMLEASE_BUILD_EXAMPLES)
  memlease_require(MPI ANY "libopenmpi-dev and openmpi-bin" COMPONENTS CXX)
endif()
