# What the compiler says of the headers. It says the same in a build with sanitizers, which leaves these out.

# Types without a dtype, which the compiler must refuse with our words.
foreach(type "long double" "std::complex<long double>" "std::complex<int>" "char*")
  add_test(NAME "dtype_of_refuses.${type}" COMMAND ${CMAKE_CXX_COMPILER} -std=c++17 -fsyntax-only
    -I${PROJECT_SOURCE_DIR}/client/include "-DMEMLEASE_TYPE=${type}"
    ${CMAKE_CURRENT_SOURCE_DIR}/dtype_of_type.cc)
  set_tests_properties("dtype_of_refuses.${type}" PROPERTIES TIMEOUT 60
    PASS_REGULAR_EXPRESSION "dtype_of: give a bool, an integer, ")
endforeach()

# Wrong uses of views, likewise.
foreach(wrong "TYPE=float" "TYPE=const char*" "CALL=span<float, 1>()" "CALL=view<float, 1>()"
              "CALL=span<float, 1>({0})")
  add_test(NAME "view_refuses.${wrong}" COMMAND ${CMAKE_CXX_COMPILER} -std=c++17 -fsyntax-only
    -I${PROJECT_SOURCE_DIR}/client/include "-DMEMLEASE_${wrong}"
    ${CMAKE_CURRENT_SOURCE_DIR}/index_of_type.cc)
  set_tests_properties("view_refuses.${wrong}" PROPERTIES TIMEOUT 60
    PASS_REGULAR_EXPRESSION "an index is an integer|use of deleted function|call to deleted member")
endforeach()

# Another standard library than the one that libmemlease.so is compiled with.
add_test(NAME headers_refuse.glibcxx_debug COMMAND ${CMAKE_CXX_COMPILER} -std=c++17 -fsyntax-only
  -D_GLIBCXX_DEBUG -I${PROJECT_SOURCE_DIR}/client/include ${CMAKE_CURRENT_SOURCE_DIR}/good_use.cc)
set_tests_properties(headers_refuse.glibcxx_debug PROPERTIES TIMEOUT 60
  PASS_REGULAR_EXPRESSION "compile with -D_GLIBCXX_ASSERTIONS")

# What users compile, by either compiler, without a warning; and what they are warned of.
set(compilers ${CMAKE_CXX_COMPILER})
find_program(MEMLEASE_CLANG NAMES clang++-19 clang++)
if(MEMLEASE_CLANG AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  list(APPEND compilers ${MEMLEASE_CLANG})
endif()
foreach(compiler ${compilers})
  cmake_path(GET compiler FILENAME name)
  set(strict ${compiler} -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
    -Werror -I${PROJECT_SOURCE_DIR}/client/include)
  foreach(standard 17 20 23)
    add_test(NAME "headers_compile.${name}.${standard}" COMMAND ${strict} -std=c++${standard}
      ${CMAKE_CURRENT_SOURCE_DIR}/good_use.cc)
    set_tests_properties("headers_compile.${name}.${standard}" PROPERTIES TIMEOUT 60)
  endforeach()
  foreach(call "array.read()" "array.write()" "array.update()" "array.try_read()" "array.try_write()"
               "array.follow()" "follower.next()" "memlease::Client::connect()")
    add_test(NAME "discard_warns.${name}.${call}" COMMAND ${strict} -std=c++17
      "-DMEMLEASE_STATEMENT=${call}" ${CMAKE_CURRENT_SOURCE_DIR}/bad_use.cc)
    set_tests_properties("discard_warns.${name}.${call}" PROPERTIES TIMEOUT 60
      PASS_REGULAR_EXPRESSION "nodiscard|ignoring return value")
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
    add_test(NAME "dangling_warns.${type_and_call}" COMMAND ${MEMLEASE_CLANG} -fsyntax-only -Werror
      -std=c++17 -I${PROJECT_SOURCE_DIR}/client/include "-DMEMLEASE_STATEMENT=const ${type_and_call}"
      ${CMAKE_CURRENT_SOURCE_DIR}/bad_use.cc)
    set_tests_properties("dangling_warns.${type_and_call}" PROPERTIES TIMEOUT 60
      PASS_REGULAR_EXPRESSION "-Wdangling")
  endforeach()
endif()
