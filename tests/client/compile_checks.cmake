# What the compiler says of the headers. It says the same in a build with sanitizers, which leaves these out.

# memlease_compiler_says(<test> <answer> <source> <compiler> <option>...): a regular expression, or "" where
# the source compiles.
function(memlease_compiler_says test answer source)
  add_test(NAME "${test}" COMMAND ${ARGN} -fsyntax-only -I${PROJECT_SOURCE_DIR}/client/include
    ${CMAKE_CURRENT_SOURCE_DIR}/${source})
  set_tests_properties("${test}" PROPERTIES TIMEOUT 60)
  if(answer)
    set_tests_properties("${test}" PROPERTIES PASS_REGULAR_EXPRESSION "${answer}")
  endif()
endfunction()

# Types without a dtype, which the compiler must refuse with our words.
foreach(type "long double" "std::complex<long double>" "std::complex<int>" "char*")
  memlease_compiler_says("dtype_of_refuses.${type}" "dtype_of: give a bool, an integer, "
    dtype_of_type.cc ${CMAKE_CXX_COMPILER} -std=c++17 "-DMEMLEASE_TYPE=${type}")
endforeach()

# Wrong uses of views, likewise.
foreach(wrong "TYPE=float" "TYPE=const char*" "CALL=span<float, 1>()" "CALL=view<float, 1>()"
              "CALL=span<float, 1>({0})")
  memlease_compiler_says("view_refuses.${wrong}"
    "an index is an integer|use of deleted function|call to deleted member"
    index_of_type.cc ${CMAKE_CXX_COMPILER} -std=c++17 "-DMEMLEASE_${wrong}")
endforeach()

# Another standard library than the one that libmemlease.so is compiled with.
memlease_compiler_says(headers_refuse.glibcxx_debug "compile with -D_GLIBCXX_ASSERTIONS"
  good_use.cc ${CMAKE_CXX_COMPILER} -std=c++17 -D_GLIBCXX_DEBUG)

# What users compile, by either compiler, without a warning; and what they are warned of.
set(compilers ${CMAKE_CXX_COMPILER})
find_program(MEMLEASE_CLANG NAMES clang++-19 clang++)
if(MEMLEASE_CLANG AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  list(APPEND compilers ${MEMLEASE_CLANG})
endif()
foreach(compiler ${compilers})
  cmake_path(GET compiler FILENAME name)
  set(strict ${compiler} -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror)
  foreach(standard 17 20 23)
    memlease_compiler_says("headers_compile.${name}.${standard}" ""
      good_use.cc ${strict} -std=c++${standard})
  endforeach()
  foreach(call "array.read()" "array.write()" "array.update()" "array.try_read()" "array.try_write()"
               "array.follow()" "follower.next()" "memlease::Client::connect()")
    memlease_compiler_says("discard_warns.${name}.${call}" "nodiscard|ignoring return value"
      bad_use.cc ${strict} -std=c++17 "-DMEMLEASE_STATEMENT=${call}")
  endforeach()
  foreach(use "a.read().span()" "a.read().indexer()" "a.lock().span()" "a.lock().indexer()" "a.lock().at(0, 0)")
    memlease_compiler_says("temporary_is_refused.${name}.${use}" "deleted"
      bad_use.cc ${strict} -std=c++17 "-DMEMLEASE_STATEMENT=static_cast<void>(${use})")
  endforeach()
endforeach()
if(MEMLEASE_NVCC)
  add_test(NAME headers_compile.nvcc.17 COMMAND ${MEMLEASE_NVCC} -x cu -std=c++17 -arch=compute_75
    -ccbin ${CMAKE_CXX_COMPILER} -Werror=all-warnings
    -Xcompiler=-Wall,-Wextra,-Wconversion,-Wshadow,-Werror -I${PROJECT_SOURCE_DIR}/client/include
    -c ${CMAKE_CURRENT_SOURCE_DIR}/use_in_kernels.cc -o ${CMAKE_CURRENT_BINARY_DIR}/use_in_kernels.o)
  set_tests_properties(headers_compile.nvcc.17 PROPERTIES TIMEOUT 120)
endif()
if(MEMLEASE_CLANG)
  foreach(type_and_call "std::string& x = client.open(\"a\").name()" "void* x = array.read().data()")
    memlease_compiler_says("dangling_warns.${type_and_call}" "-Wdangling"
      bad_use.cc ${MEMLEASE_CLANG} -Werror -std=c++17 "-DMEMLEASE_STATEMENT=const ${type_and_call}")
  endforeach()
endif()
