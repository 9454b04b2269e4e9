# memlease_add_proto_library(<target> ROOT <folder> PROTOS <file>... [GRPC])
#
# Generates C++ from the .proto files, whose paths are relative to ROOT as in their imports, and
# builds a static library of it. With GRPC also the services.
# Generated code is not ours: it is compiled without our warnings and without clang-tidy, its headers
# count as a system's, and sanitizers are off, which would see half of what protobuf and gRPC, not
# instrumented themselves, do with it.
function(memlease_add_proto_library target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "GRPC" "ROOT" "PROTOS")
  cmake_path(ABSOLUTE_PATH arg_ROOT OUTPUT_VARIABLE root)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/generated)
  file(MAKE_DIRECTORY ${out})

  set(extensions .pb.cc .pb.h)
  set(flags --cpp_out=${out})
  if(arg_GRPC)
    list(APPEND extensions .grpc.pb.cc .grpc.pb.h)
    list(APPEND flags --grpc_out=${out} --plugin=protoc-gen-grpc=${MEMLEASE_GRPC_PLUGIN})
  endif()

  foreach(proto IN LISTS arg_PROTOS)
    cmake_path(REMOVE_EXTENSION proto OUTPUT_VARIABLE stem)
    list(TRANSFORM extensions PREPEND ${out}/${stem} OUTPUT_VARIABLE outputs)
    add_custom_command(
      OUTPUT ${outputs}
      COMMAND protobuf::protoc ${flags} --proto_path=${root} ${proto}
      DEPENDS ${root}/${proto}
      COMMENT "Generating ${stem}.pb"
      VERBATIM)
    list(APPEND sources ${outputs})
  endforeach()

  add_library(${target} STATIC ${sources})
  target_include_directories(${target} SYSTEM PUBLIC ${out})
  target_link_libraries(${target} PUBLIC memlease_grpc)
  target_compile_options(${target} PRIVATE -w)
  set_target_properties(${target} PROPERTIES CXX_CLANG_TIDY "" UNITY_BUILD OFF)
  if(MEMLEASE_SANITIZE)
    target_compile_options(${target} PRIVATE -fno-sanitize=all)
  endif()
endfunction()
