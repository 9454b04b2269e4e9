# memlease::dlpack_header: DLPack's header, 1.1 or newer. Debian's package is too old, so it comes
# from, in this order: MEMLEASE_DLPACK_INCLUDE_DIR, a CMake package dlpack, or the Python package
# apache-tvm-ffi in the building environment (needed at build time only).
set(MEMLEASE_DLPACK_INCLUDE_DIR "" CACHE PATH "Folder that holds dlpack/dlpack.h 1.1 or newer")

add_library(memlease_dlpack_header INTERFACE)
add_library(memlease::dlpack_header ALIAS memlease_dlpack_header)

set(memlease_dlpack_include ${MEMLEASE_DLPACK_INCLUDE_DIR})
if(NOT memlease_dlpack_include)
  find_package(dlpack 1.1 QUIET CONFIG)
  if(TARGET dlpack::dlpack)
    get_target_property(memlease_dlpack_include dlpack::dlpack INTERFACE_INCLUDE_DIRECTORIES)
  endif()
endif()
if(NOT memlease_dlpack_include)
  # Found by its metadata: importing the package would load its library.
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c
            "import importlib.util as u; print(u.find_spec('tvm_ffi').submodule_search_locations[0])"
    OUTPUT_VARIABLE memlease_tvm_ffi OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(memlease_tvm_ffi)
    set(memlease_dlpack_include ${memlease_tvm_ffi}/include)
  endif()
endif()
if(NOT EXISTS "${memlease_dlpack_include}/dlpack/dlpack.h")
  message(FATAL_ERROR
    "memlease's Python package needs DLPack's header, 1.1 or newer, and CMake did not find it. Any of:\n"
    "  - set MEMLEASE_DLPACK_INCLUDE_DIR to the folder that holds dlpack/dlpack.h;\n"
    "  - install DLPack as a CMake package and name its prefix in CMAKE_PREFIX_PATH;\n"
    "  - pip install apache-tvm-ffi into the environment that builds (./dev setup does).")
endif()
message(STATUS "dlpack.h: ${memlease_dlpack_include}")
target_include_directories(memlease_dlpack_header SYSTEM INTERFACE ${memlease_dlpack_include})
