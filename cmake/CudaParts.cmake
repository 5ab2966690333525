# LOCKSTEP_CUDA: ON wants nvcc 13, AUTO takes it where it is, OFF leaves it. What is built without it
# still runs collectives on GPUs (libnccl and the driver are opened at run time); only the kernels
# of lockstep-trainer's CUDA check are missing.
#
# Looks where tools/deps --cuda puts its parts, then at CUDA_HOME, /usr/local/cuda and PATH. Sets
# LOCKSTEP_NVCC, and CUDA_PARTS_INCLUDE and NCCL_PARTS_INCLUDE for the tests that compare our
# declarations with the real headers; each empty where there is none.
set(LOCKSTEP_CUDA AUTO CACHE STRING "Compile CUDA kernels: ON, OFF, or AUTO where nvcc is found")
set_property(CACHE LOCKSTEP_CUDA PROPERTY STRINGS AUTO ON OFF)

if(DEFINED ENV{XDG_CACHE_HOME})
  set(cuda_parts $ENV{XDG_CACHE_HOME}/lockstep/cuda/nvidia)
else()
  set(cuda_parts $ENV{HOME}/.cache/lockstep/cuda/nvidia)
endif()

set(LOCKSTEP_NVCC "")
set(CUDA_PARTS_INCLUDE "")
set(NCCL_PARTS_INCLUDE "")
if(LOCKSTEP_CUDA)
  # Looked for at every configure: tools/deps --cuda may have been run, or its parts removed.
  unset(found_nvcc)
  find_program(found_nvcc nvcc NO_CACHE NO_DEFAULT_PATH
    PATHS ${cuda_parts}/cu13/bin $ENV{CUDA_HOME}/bin /usr/local/cuda/bin)
  find_program(found_nvcc nvcc NO_CACHE)
  set(nvcc_version 0)
  if(found_nvcc)
    execute_process(COMMAND ${found_nvcc} --version OUTPUT_VARIABLE nvcc_version ERROR_QUIET)
    string(REGEX REPLACE ".*release ([0-9.]+).*" "\\1" nvcc_version "${nvcc_version}")
  endif()
  if(nvcc_version VERSION_GREATER_EQUAL 13.0)
    set(LOCKSTEP_NVCC ${found_nvcc})
    get_filename_component(cuda_root ${found_nvcc} REALPATH)
    get_filename_component(cuda_root ${cuda_root} DIRECTORY)
    if(EXISTS ${cuda_root}/../include/cuda.h)
      set(CUDA_PARTS_INCLUDE ${cuda_root}/../include)
    endif()
    if(EXISTS ${cuda_parts}/nccl/include/nccl.h)
      set(NCCL_PARTS_INCLUDE ${cuda_parts}/nccl/include)
    endif()
    message(STATUS "CUDA kernels are compiled by ${LOCKSTEP_NVCC}")
  elseif(LOCKSTEP_CUDA STREQUAL "AUTO")
    message(STATUS
      "No nvcc 13: lockstep-trainer gets no CUDA check (tools/deps --cuda brings what it takes)")
  else()
    message(FATAL_ERROR "LOCKSTEP_CUDA is ON and there is no nvcc 13 (found: ${found_nvcc}): run "
      "tools/deps --cuda, put nvcc on PATH, or set LOCKSTEP_CUDA=OFF")
  endif()
endif()

# lockstep_cuda_image(TARGET DEFINITION KERNELS SOURCE): compiles KERNELS (.cu) to a fat binary for
# GPUs from Turing on, and SOURCE of TARGET with its path as DEFINITION. Nothing without nvcc.
function(lockstep_cuda_image target definition kernels source)
  if(NOT LOCKSTEP_NVCC)
    return()
  endif()
  get_filename_component(name ${kernels} NAME_WE)
  set(image ${CMAKE_CURRENT_BINARY_DIR}/${name}.fatbin)
  add_custom_command(OUTPUT ${image}
    COMMAND ${LOCKSTEP_NVCC} -fatbin -O3 --compiler-bindir g++
      -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90
      -gencode arch=compute_100,code=sm_100 -gencode arch=compute_75,code=compute_75
      -o ${image} ${CMAKE_CURRENT_SOURCE_DIR}/${kernels}
    DEPENDS ${kernels} COMMENT "Compiling CUDA kernels ${name}" VERBATIM)
  set_source_files_properties(${source} PROPERTIES
    COMPILE_DEFINITIONS ${definition}="${image}" OBJECT_DEPENDS ${image})
  target_sources(${target} PRIVATE ${image})
endfunction()
