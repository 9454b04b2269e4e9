# Takes ccache and the mold linker where they are installed, unless the user chose otherwise.
if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()

find_program(MEMLEASE_CCACHE ccache)
if(MEMLEASE_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${MEMLEASE_CCACHE})
endif()

# GCC knows -fuse-ld=mold from version 12.1.
find_program(MEMLEASE_MOLD mold)
if(MEMLEASE_MOLD AND NOT CMAKE_EXE_LINKER_FLAGS MATCHES "-fuse-ld="
   AND (CMAKE_CXX_COMPILER_ID MATCHES "Clang" OR CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12.1))
  add_link_options(-fuse-ld=mold)
endif()

# GCC collects its garbage from 128 MiB on, and units of several files need more: 5 % of their time.
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_CXX_CLANG_TIDY)
  add_compile_options("SHELL:--param ggc-min-heapsize=1000000")
endif()
