# Installs memlease into an empty directory and builds and runs a user's project against it, with the
# daemon that was installed. Run with -DBUILD_DIR -DSOURCE_DIR -DWORK_DIR -DBINDIR -DMANDIR -DCXX.

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}\nended with ${result}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

set(prefix ${WORK_DIR}/prefix)
file(REMOVE_RECURSE ${WORK_DIR})
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix})
# What a user sees of us: no internal header, no static library, no gRPC, nothing of the Python package.
file(GLOB folders RELATIVE ${prefix} ${prefix}/*)
if(NOT folders STREQUAL "bin;include;lib;share")
  message(FATAL_ERROR "installed are ${folders}: there is something else beside bin, include, lib and share")
endif()
file(GLOB_RECURSE headers RELATIVE ${prefix}/include ${prefix}/include/*)
foreach(header ${headers})
  if(NOT header MATCHES "^memlease/[a-z_]+\\.h$")
    message(FATAL_ERROR "installed, and is nobody's business: include/${header}")
  endif()
endforeach()
foreach(program memleased memleasectl)
  run(${prefix}/${BINDIR}/${program} --version)
endforeach()
# Pages that a reader of manual pages can show, without a warning.
foreach(page man1/memleasectl.1 man8/memleased.8)
  run(${CMAKE_COMMAND} -E env LC_ALL=C.UTF-8 man --warnings -l ${prefix}/${MANDIR}/${page})
  if(NOT output MATCHES "NAME" OR output MATCHES "warning:")
    message(FATAL_ERROR "${page} reads:\n${output}")
  endif()
endforeach()

run(${CMAKE_COMMAND} -S ${SOURCE_DIR} -B ${WORK_DIR}/build -DCMAKE_PREFIX_PATH=${prefix}
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_CXX_FLAGS=${FLAGS}")
run(${CMAKE_COMMAND} --build ${WORK_DIR}/build)
# The library finds the daemon beside itself and starts it; that one ends by itself when idle, and
# is told to end here.
run(${CMAKE_COMMAND} -E env --unset=MEMLEASE_DIR --unset=MEMLEASE_DAEMON
    ${WORK_DIR}/build/consumer ${WORK_DIR}/run)
file(STRINGS ${WORK_DIR}/run/memleased.lock pid LIMIT_COUNT 1)
run(kill -TERM ${pid})
# Its lock file goes last.
foreach(attempt RANGE 100)
  if(NOT EXISTS ${WORK_DIR}/run/memleased.lock)
    break()
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} -E sleep 0.1)
endforeach()
file(GLOB left RELATIVE ${WORK_DIR}/run ${WORK_DIR}/run/*)
if(NOT left STREQUAL "memleased.log")  # of a daemon in the background, to be read afterwards
  message(FATAL_ERROR "the daemon left ${left}")
endif()
file(REMOVE_RECURSE ${WORK_DIR})
