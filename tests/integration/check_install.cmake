# Installs memlease into an empty directory, looks at what is there, and builds and runs a user's project
# against it. Run with -DBUILD_DIR -DSOURCE_DIR -DWORK_DIR -DBINDIR -DLIBDIR -DMANDIR -DDOCDIR -DCXX -DFLAGS.

include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

set(prefix ${WORK_DIR}/prefix)
file(REMOVE_RECURSE ${WORK_DIR})
# An installation may be moved.
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/installed)
file(RENAME ${WORK_DIR}/installed ${prefix})
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
foreach(file lib/systemd/system/memleased.service lib/systemd/system/memleased.socket
             lib/systemd/user/memleased.service lib/systemd/user/memleased.socket
             lib/sysusers.d/memlease.conf lib/tmpfiles.d/memlease.conf
             share/bash-completion/completions/memleased share/bash-completion/completions/memleasectl)
  if(NOT EXISTS ${prefix}/${file})
    message(FATAL_ERROR "${file} is not installed")
  endif()
endforeach()
# Pages that a reader of manual pages can show, without a warning.
foreach(page man1/memleasectl.1 man8/memleased.8)
  run(${CMAKE_COMMAND} -E env LC_ALL=C.UTF-8 man --warnings -l ${prefix}/${MANDIR}/${page})
  if(NOT output MATCHES "NAME" OR output MATCHES "warning:")
    message(FATAL_ERROR "${page} reads:\n${output}")
  endif()
endforeach()

# The components, of which a package each can be made, are all that there is.
foreach(component library programs server development)
  run(${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${WORK_DIR}/parts --component ${component})
endforeach()
file(GLOB_RECURSE all RELATIVE ${prefix} ${prefix}/*)
file(GLOB_RECURSE parts RELATIVE ${WORK_DIR}/parts ${WORK_DIR}/parts/*)
if(NOT all STREQUAL parts)
  message(FATAL_ERROR "the components have ${parts}\nand all is ${all}")
endif()
if(NOT EXISTS ${prefix}/${DOCDIR}/LICENSE)
  message(FATAL_ERROR "there is no licence in ${DOCDIR}")
endif()

# The example, as the README says.
run(${CMAKE_COMMAND} -S ${prefix}/${DOCDIR}/examples/hello -B ${WORK_DIR}/hello
    -DCMAKE_PREFIX_PATH=${prefix} -DCMAKE_CXX_COMPILER=${CXX} "-DCMAKE_CXX_FLAGS=${FLAGS}")
run(${CMAKE_COMMAND} --build ${WORK_DIR}/hello)

set(PREFIX ${prefix})
include(${CMAKE_CURRENT_LIST_DIR}/build_consumers.cmake)
file(REMOVE_RECURSE ${WORK_DIR})
