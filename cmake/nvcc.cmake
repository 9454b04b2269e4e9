# MEMLEASE_NVCC: the compiler of CUDA's kernels, if it is that of the headers that cuda_runtime.cmake
# found and works with the compiler in use. Only examples need it.
set(MEMLEASE_NVCC)
if(MEMLEASE_CUDA_HEADERS)
  find_program(MEMLEASE_NVCC_PROGRAM nvcc NO_DEFAULT_PATH
    PATHS ${MEMLEASE_CUDA_INCLUDE}/../bin ${MEMLEASE_CUDA_INCLUDE}/../../../bin)
  # Code for GPUs from Turing on, which the driver compiles for the one it has: quick to build, and
  # good for GPUs to come.
  # No product and sum in one rounding: a GPU's numbers are then the host's, but for hypot and cbrt.
  set(MEMLEASE_NVCC_FLAGS -x cu -std=c++20 -O2 -arch=compute_75 -ccbin ${CMAKE_CXX_COMPILER}
      -Xcompiler=-fPIC -fmad=false --expt-relaxed-constexpr)
  if(MEMLEASE_NVCC_PROGRAM AND NOT DEFINED MEMLEASE_NVCC_WORKS)
    file(WRITE ${PROJECT_BINARY_DIR}/nvcc/probe.cc "#include <span>\n__global__ void probe() {}\n")
    execute_process(
      COMMAND ${MEMLEASE_NVCC_PROGRAM} ${MEMLEASE_NVCC_FLAGS} -c probe.cc -o probe.o
      WORKING_DIRECTORY ${PROJECT_BINARY_DIR}/nvcc
      OUTPUT_FILE probe.log ERROR_FILE probe.log RESULT_VARIABLE result)
    if(result EQUAL 0)
      set(MEMLEASE_NVCC_WORKS ON CACHE INTERNAL "nvcc compiles with the C++ compiler in use")
    else()
      message(STATUS "nvcc: passing over ${MEMLEASE_NVCC_PROGRAM}, which fails with this compiler: "
                     "see ${PROJECT_BINARY_DIR}/nvcc/probe.log")
    endif()
  endif()
  if(MEMLEASE_NVCC_WORKS)
    set(MEMLEASE_NVCC ${MEMLEASE_NVCC_PROGRAM})
  endif()
endif()
if(MEMLEASE_NVCC)
  message(STATUS "nvcc: ${MEMLEASE_NVCC}; the tsunami example can compute on a GPU")
else()
  message(STATUS "nvcc: none of CUDA 13's toolkit, so the tsunami example computes on the host alone")
endif()

# memlease_add_kernels(<target> <source>): nvcc compiles the source for the target.
function(memlease_add_kernels target source)
  get_filename_component(source ${source} ABSOLUTE)
  get_filename_component(name ${source} NAME)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${target}.${name}.o)
  add_custom_command(OUTPUT ${object}
    COMMAND ${MEMLEASE_NVCC} ${MEMLEASE_NVCC_FLAGS} -I${PROJECT_SOURCE_DIR}
            -MD -MF ${object}.d -MT ${object} -c ${source} -o ${object}
    DEPENDS ${source} DEPFILE ${object}.d
    COMMENT "Compiling ${name} with nvcc" VERBATIM)
  target_sources(${target} PRIVATE ${object})
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
endfunction()
