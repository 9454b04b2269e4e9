# memlease_join_units(<target> <count>): files of the target are compiled by that many together, as most
# of what is slow to compile is what they all include. Names of files' own must then differ within it.
function(memlease_join_units target count)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${count}
    UNITY_BUILD_CODE_BEFORE_INCLUDE "// NOLINTNEXTLINE(bugprone-suspicious-include)")
endfunction()

# memlease_few_units(<target> [BUT <file>...]): joins the target's files for the sanitizers and for
# clang-tidy. The other builds keep a file a unit, so that each shows that it includes what it uses.
# BUT: files of this folder whose objects a test replaces by others of its own, for which an archive's
# member must hold nothing else.
function(memlease_few_units target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "BUT")
  if(MEMLEASE_SANITIZE OR CMAKE_CXX_CLANG_TIDY)
    memlease_join_units(${target} 8)
    set_source_files_properties(${arg_BUT} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
endfunction()

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
