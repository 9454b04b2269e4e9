# With MEMLEASE_GRPC=shared memlease has the very gRPC that applications have, and no other flavour beside
# it: the two clash in one process. Run with -DSOURCE_DIR -DWORK_DIR -DCXX.

include(${SOURCE_DIR}/tests/integration/run.cmake)

# flavours_of(<program>): the libraries of gRPC that the loader gives it, in `flavours`.
function(flavours_of program)
  run(ldd ${WORK_DIR}/${program})
  string(REGEX MATCHALL "libgrpc(\\+\\+)?(_unsecure)?\\.so" flavours "${output}")
  list(SORT flavours)
  list(REMOVE_DUPLICATES flavours)
  set(flavours "${flavours}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} -G Ninja -S ${SOURCE_DIR}/tests/cmake/flavour -B ${WORK_DIR}
    -DCMAKE_CXX_COMPILER=${CXX} -DMEMLEASE_GRPC=shared)
run(${CMAKE_COMMAND} --build ${WORK_DIR})

flavours_of(application)
set(wanted ${flavours})
flavours_of(memlease)
if(NOT flavours STREQUAL wanted OR NOT flavours)
  message(FATAL_ERROR "memlease links ${flavours}, and applications link ${wanted}")
endif()
flavours_of(other_flavour)  # the control
if(flavours STREQUAL wanted)
  message(FATAL_ERROR "the flavours cannot be told from each other")
endif()
