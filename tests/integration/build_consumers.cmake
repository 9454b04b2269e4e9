# Builds and runs a user's project against an installation, as CMake's package and by pkg-config, with each
# compiler that is here and as C++17 and C++20. The installation's own daemon serves them. Run with
# -DPREFIX -DLIBDIR -DSOURCE_DIR -DWORK_DIR -DCXX and, for sanitized builds, -DFLAGS.

include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

set(compilers ${CXX})
find_program(clang NAMES clang++ clang++-19 clang++-14)
if(FLAGS)
  message(STATUS "not tried: clang, as a sanitized library wants its own compiler's runtime")
elseif(NOT clang)
  message(STATUS "not tried: clang is not installed")
elseif(NOT clang STREQUAL CXX)
  list(APPEND compilers ${clang})
endif()
set(run_directory ${WORK_DIR}/run)  # short, as sockets' paths are
set(consumer ${CMAKE_COMMAND} -E env --unset=MEMLEASE_DIR --unset=MEMLEASE_DAEMON)
set(warnings -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror)

# The library finds the daemon in its own installation and starts it; that one ends by itself when idle,
# and is told to end here.
foreach(compiler IN LISTS compilers)
  foreach(standard 17 20)
    file(REMOVE_RECURSE ${WORK_DIR}/cmake)  # a build folder has one compiler
    run(${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${WORK_DIR}/cmake -DCMAKE_PREFIX_PATH=${PREFIX}
        -DCMAKE_CXX_COMPILER=${compiler} -DCMAKE_CXX_STANDARD=${standard} -DCMAKE_BUILD_TYPE=Debug
        "-DCMAKE_CXX_FLAGS=${FLAGS}")
    run(${CMAKE_COMMAND} --build ${WORK_DIR}/cmake)
    run(${consumer} ${WORK_DIR}/cmake/consumer ${run_directory} ${standard})
    message(STATUS "tried: ${compiler}, C++${standard}, by CMake")
  endforeach()
endforeach()

set(ENV{PKG_CONFIG_PATH} ${PREFIX}/${LIBDIR}/pkgconfig)
run(pkg-config --cflags memlease)
separate_arguments(compile UNIX_COMMAND "${output}")
run(pkg-config --libs memlease)
separate_arguments(link UNIX_COMMAND "${output}")
foreach(compiler IN LISTS compilers)
  foreach(standard 17 20)
    run(${compiler} -std=c++${standard} ${warnings} ${FLAGS} ${compile} ${SOURCE_DIR}/consumer.cc
        ${link} -o ${WORK_DIR}/by_pkg_config)
    run(${consumer} LD_LIBRARY_PATH=${PREFIX}/${LIBDIR} ${WORK_DIR}/by_pkg_config ${run_directory}
        ${standard})
    message(STATUS "tried: ${compiler}, C++${standard}, by pkg-config")
  endforeach()
endforeach()

file(STRINGS ${run_directory}/memleased.lock pid LIMIT_COUNT 1)
run(kill -TERM ${pid})
# Its lock file goes last.
foreach(attempt RANGE 100)
  if(NOT EXISTS ${run_directory}/memleased.lock)
    break()
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} -E sleep 0.1)
endforeach()
file(GLOB left RELATIVE ${run_directory} ${run_directory}/*)
if(NOT left STREQUAL "memleased.log")  # of a daemon in the background, to be read afterwards
  message(FATAL_ERROR "the daemon left ${left}")
endif()
