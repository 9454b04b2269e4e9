# memlease_fmt, memlease_spdlog, memlease_toml: with a private gRPC compiled into us, so that what we
# give to users needs nothing but the C and C++ libraries; else the shared libraries.
if(TARGET memlease_private_grpc)
  add_library(memlease_fmt STATIC ${PROJECT_SOURCE_DIR}/wire/fmt.cc)
  target_compile_features(memlease_fmt PRIVATE cxx_std_20)
  # As fmt::fmt has it, so that ccache has one object of a file for both ways; it hides nothing less.
  target_compile_definitions(memlease_fmt PUBLIC FMT_SHARED)
  set_target_properties(memlease_fmt PROPERTIES
    POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  add_library(memlease_spdlog INTERFACE)
  target_compile_definitions(memlease_spdlog INTERFACE SPDLOG_FMT_EXTERNAL)
  target_link_libraries(memlease_spdlog INTERFACE memlease_fmt Threads::Threads)
  add_library(memlease_toml INTERFACE)  # a header, unless its own target says otherwise
else()
  foreach(pair fmt:fmt::fmt spdlog:spdlog::spdlog toml:tomlplusplus::tomlplusplus)
    string(REGEX MATCH "^([a-z]+):(.+)$" _ ${pair})
    add_library(memlease_${CMAKE_MATCH_1} INTERFACE)
    target_link_libraries(memlease_${CMAKE_MATCH_1} INTERFACE ${CMAKE_MATCH_2})
  endforeach()
endif()
