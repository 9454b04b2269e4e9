# Whose gRPC, protobuf and abseil memlease uses (docs/decisions/0015-private-grpc.md).
#
# memlease_grpc and memlease_absl are what code of ours links. They are Debian's shared libraries,
# except in a target that memlease_hide_grpc() names: a copy of its own is linked into that one, and
# is not to be seen from outside. So the tests of the inside, which are many, link fast.
set(MEMLEASE_GRPC private CACHE STRING "gRPC in libmemlease and the programs: private or shared")
set_property(CACHE MEMLEASE_GRPC PROPERTY STRINGS private shared)

if(NOT MEMLEASE_GRPC MATCHES "^(private|shared)$")
  message(FATAL_ERROR "MEMLEASE_GRPC=${MEMLEASE_GRPC} is not known: use private or shared.")
elseif(MEMLEASE_GRPC STREQUAL "private" AND MEMLEASE_SANITIZE)
  message(FATAL_ERROR "MEMLEASE_GRPC=private and MEMLEASE_SANITIZE=${MEMLEASE_SANITIZE} do not go together: "
                      "the private gRPC is not instrumented, and could not be told from code that is. "
                      "Use MEMLEASE_GRPC=shared.")
endif()

# memlease_find_private_grpc(<variable>): where it is; built if it is not there.
function(memlease_find_private_grpc variable)
  find_program(MEMLEASE_SYSTEM_PYTHON python3 REQUIRED)
  set(folder ${PROJECT_SOURCE_DIR}/cmake/private_grpc)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${folder}/private_grpc.py ${folder}/CMakeLists.txt)
  set(private_grpc ${MEMLEASE_SYSTEM_PYTHON} ${folder}/private_grpc.py --cxx ${CMAKE_CXX_COMPILER})
  message(STATUS "gRPC: private. The first time abseil and protobuf are built for it, for some minutes")
  execute_process(COMMAND ${private_grpc} build RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "The private gRPC could not be built; the reason is above. Configure again to go "
                        "on, or link the system's shared gRPC: -DMEMLEASE_GRPC=shared.")
  endif()
  execute_process(COMMAND ${private_grpc} path COMMAND_ERROR_IS_FATAL ANY
    OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(${variable} ${path} PARENT_SCOPE)
endfunction()

set(memlease_absl_parts status statusor cord cleanup flat_hash_map flat_hash_set node_hash_map btree
                        function_ref synchronization)
list(TRANSFORM memlease_absl_parts PREPEND absl::)
add_library(memlease_absl INTERFACE)
add_library(memlease_grpc INTERFACE)

# gRPC comes in two flavours, which clash in one process. Shared with applications, it is the one
# that they use, with TLS. What is private needs no TLS on UNIX sockets.
if(MEMLEASE_GRPC STREQUAL "private")
  memlease_find_private_grpc(memlease_private_grpc)
  foreach(archive grpc++_unsecure grpc_unsecure gpr address_sorting re2 upb cares z)
    find_library(MEMLEASE_STATIC_${archive} lib${archive}.a REQUIRED)
    list(APPEND memlease_grpc_archives ${MEMLEASE_STATIC_${archive}})
  endforeach()
  list(APPEND memlease_grpc_archives ${memlease_private_grpc}/libmemlease_private_grpc.a)
  list(JOIN memlease_grpc_archives , memlease_grpc_archives)
  add_library(memlease_private_grpc INTERFACE)
  target_link_libraries(memlease_private_grpc INTERFACE
    "$<LINK_GROUP:RESCAN,${memlease_grpc_archives}>" Threads::Threads)
  add_library(memlease_shared_grpc INTERFACE)
  target_link_libraries(memlease_shared_grpc INTERFACE gRPC::grpc++_unsecure protobuf::libprotobuf)
  add_library(memlease_shared_absl INTERFACE)
  target_link_libraries(memlease_shared_absl INTERFACE ${memlease_absl_parts})
  set(hidden $<BOOL:$<TARGET_PROPERTY:MEMLEASE_HIDES_GRPC>>)
  target_link_libraries(memlease_grpc INTERFACE $<IF:${hidden},memlease_private_grpc,memlease_shared_grpc>)
  target_link_libraries(memlease_absl INTERFACE $<IF:${hidden},memlease_private_grpc,memlease_shared_absl>)
  # The shared library of reflection would bring the flavour with TLS along.
  find_library(MEMLEASE_STATIC_grpc++_reflection libgrpc++_reflection.a REQUIRED)
  set(memlease_grpc_reflection "$<LINK_LIBRARY:WHOLE_ARCHIVE,${MEMLEASE_STATIC_grpc++_reflection}>")
else()
  message(STATUS "gRPC: shared libgrpc++")
  target_link_libraries(memlease_grpc INTERFACE gRPC::grpc++ protobuf::libprotobuf)
  target_link_libraries(memlease_absl INTERFACE ${memlease_absl_parts})
  set(memlease_grpc_reflection gRPC::grpc++_reflection)
endif()

# memlease_hide_grpc(<target>): a library or program for users.
function(memlease_hide_grpc target)
  if(TARGET memlease_private_grpc)
    set_target_properties(${target} PROPERTIES MEMLEASE_HIDES_GRPC TRUE)
    # wire/grpc/wrapped_calls.cc
    target_link_options(${target} PRIVATE -Wl,--gc-sections
      -Wl,--wrap=pthread_create -Wl,--wrap=sysconf -Wl,--undefined=__wrap_pthread_create)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
      target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL)
    endif()
  endif()
endfunction()
