# memlease::cuda_headers and memlease::cudart: CUDA 13's runtime and the headers of its driver, without
# nvcc. They come from, in this order: CUDA_PATH, /usr/local/cuda, or the Python packages
# nvidia-cuda-runtime and nvidia-cuda-crt in .venv, where requirements/build.txt puts them.
# Without any of these MEMLEASE_CUDA_HEADERS is off, and what needs them is left out.
set(memlease_cuda_places)
if(DEFINED ENV{CUDA_PATH})
  list(APPEND memlease_cuda_places $ENV{CUDA_PATH}/include)
endif()
list(APPEND memlease_cuda_places /usr/local/cuda/include)
file(GLOB memlease_cuda_packages
  ${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu13/include)
list(APPEND memlease_cuda_places ${memlease_cuda_packages})

set(MEMLEASE_CUDA_HEADERS OFF)
foreach(place IN LISTS memlease_cuda_places)
  # The runtime's headers include those of nvidia-cuda-crt, which is a package of its own.
  if(NOT EXISTS ${place}/cuda_runtime_api.h OR NOT EXISTS ${place}/crt/host_defines.h)
    continue()
  endif()
  file(STRINGS ${place}/cuda_runtime_api.h line REGEX "define CUDART_VERSION +[0-9]+" LIMIT_COUNT 1)
  string(REGEX MATCH "[0-9]+$" version "${line}")
  if(NOT version GREATER_EQUAL 13000 OR NOT version LESS 14000)
    message(STATUS "CUDA headers: passing over ${place}, which are of ${version} and not of CUDA 13")
    continue()
  endif()
  # The runtime itself: of the Python package, or of a toolkit.
  find_library(MEMLEASE_CUDART NAMES libcudart.so.13 NO_DEFAULT_PATH
    PATHS ${place}/../lib ${place}/../lib64 ${place}/../targets/x86_64-linux/lib)
  if(NOT MEMLEASE_CUDART)
    message(STATUS "CUDA headers: passing over ${place}, which have no libcudart.so.13 beside them")
    continue()
  endif()
  message(STATUS "CUDA headers ${version}: ${place}")
  add_library(memlease_cuda_headers INTERFACE)
  add_library(memlease::cuda_headers ALIAS memlease_cuda_headers)
  target_include_directories(memlease_cuda_headers SYSTEM INTERFACE ${place})
  add_library(memlease::cudart SHARED IMPORTED)
  set_target_properties(memlease::cudart PROPERTIES
    IMPORTED_LOCATION ${MEMLEASE_CUDART} IMPORTED_SONAME libcudart.so.13)
  set(MEMLEASE_CUDA_HEADERS ON)
  set(MEMLEASE_CUDA_INCLUDE ${place})
  break()
endforeach()
if(NOT MEMLEASE_CUDA_HEADERS)
  message(STATUS "CUDA headers: none found, so the CUDA stand-in and its tests are left out. "
                 "./dev setup installs them in .venv; or set CUDA_PATH to a toolkit of CUDA 13.")
endif()
