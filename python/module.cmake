# memlease_python: the extension module memlease._core, and the component `python_module`, which is it.
# It needs memlease::client; pip's build of the whole tree has that, and so has built/.
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)

# Debian's pybind11 is too old and may be found first: ask the one that Python imports.
execute_process(COMMAND ${Python_EXECUTABLE} -m pybind11 --cmakedir
                OUTPUT_VARIABLE memlease_pybind11_dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
find_package(pybind11 3 QUIET CONFIG HINTS ${memlease_pybind11_dir})
if(NOT pybind11_FOUND)
  message(FATAL_ERROR "memlease's Python package needs pybind11 3 or newer, and CMake did not find it. "
                      "Run ./dev setup, or install it with pip.")
endif()
include(dlpack_header)

set(memlease_bindings ${CMAKE_CURRENT_LIST_DIR}/bindings)
set(memlease_module_map ${CMAKE_CURRENT_LIST_DIR}/module.map)
pybind11_add_module(memlease_python MODULE
  ${memlease_bindings}/module.cc
  ${memlease_bindings}/bind_array.cc
  ${memlease_bindings}/bind_client.cc
  ${memlease_bindings}/bind_copies.cc
  ${memlease_bindings}/bind_error.cc
  ${memlease_bindings}/bind_follower.cc
  ${memlease_bindings}/bind_import.cc
  ${memlease_bindings}/bind_lease.cc
  ${memlease_bindings}/bind_lease_calls.cc
  ${memlease_bindings}/bind_sycl_usm.cc
  ${memlease_bindings}/bind_view.cc
  ${memlease_bindings}/dlpack_capsule.cc
  ${memlease_bindings}/endless_wait.cc
  ${memlease_bindings}/fastcall.cc
  ${memlease_bindings}/fork_number.cc
  ${memlease_bindings}/gil.cc
  ${memlease_bindings}/lease.cc
  ${memlease_bindings}/numpy_array.cc
  ${memlease_bindings}/package_parts.cc
  ${memlease_bindings}/region.cc
  ${memlease_bindings}/view.cc
  ${memlease_bindings}/view_buffer.cc
  ${CMAKE_CURRENT_LIST_DIR}/../client/views/dlpack_view.cc
  ${CMAKE_CURRENT_LIST_DIR}/../client/views/strides.cc
  ${CMAKE_CURRENT_LIST_DIR}/../client/views/sycl_usm_view.cc)
target_link_libraries(memlease_python PRIVATE memlease::client memlease::dlpack_header
                                              memlease_warnings)
target_link_options(memlease_python PRIVATE -Wl,--version-script=${memlease_module_map})
set_property(TARGET memlease_python PROPERTY LINK_DEPENDS ${memlease_module_map})
# pybind11 asks at each change of a reference count whether the GIL is held. That costs a tenth of a
# read; the sanitized builds go on asking.
target_compile_definitions(memlease_python PRIVATE
  $<$<CONFIG:Release>:PYBIND11_NO_ASSERT_GIL_HELD_INCREF_DECREF>)
# The library and the programs are found beside the module, whatever the environment.
set_target_properties(memlease_python PROPERTIES OUTPUT_NAME _core INSTALL_RPATH "$ORIGIN"
                                                 BUILD_WITH_INSTALL_RPATH FALSE)
install(TARGETS memlease_python
        LIBRARY DESTINATION memlease COMPONENT python_module EXCLUDE_FROM_ALL)
