# The GPU's kernels. Every build has them as PTX, which the driver compiles when it loads them.
# LOCKSTEP_CUDA: ON wants nvcc 13, AUTO takes it where it is, OFF leaves it; with it they are also there
# as machine code for the GPUs that it knows, which start sooner.
#
# Looks where tools/deps --cuda puts its parts, then at CUDA_HOME, /usr/local/cuda and PATH. Sets
# LOCKSTEP_NVCC, and CUDA_PARTS_INCLUDE and NCCL_PARTS_INCLUDE for the tests that compare our
# declarations with the real headers; each empty where there is none.
set(LOCKSTEP_CUDA AUTO CACHE STRING "Machine code for GPUs: ON, OFF, or AUTO where nvcc is found")
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
    message(STATUS "GPU kernels are assembled by the ptxas of ${LOCKSTEP_NVCC}")
  elseif(LOCKSTEP_CUDA STREQUAL "AUTO")
    message(STATUS
      "No nvcc 13: GPU kernels are built as PTX alone (tools/deps --cuda brings what machine code takes)")
  else()
    message(FATAL_ERROR "LOCKSTEP_CUDA is ON and there is no nvcc 13 (found: ${found_nvcc}): run "
      "tools/deps --cuda, put nvcc on PATH, or set LOCKSTEP_CUDA=OFF")
  endif()
endif()

# lockstep_device_image(TARGET SOURCE KERNELS): compiles KERNELS (.cu) to PTX for LOCKSTEP_PTX_ARCHES by
# clang-19, which wants no file of NVIDIA's for it, and where there is nvcc its ptxas makes a fat binary
# of that PTX for LOCKSTEP_SASS_ARCHES. SOURCE of TARGET gets their paths: LOCKSTEP_PTX_80 and so on, and
# LOCKSTEP_SASS.
set(LOCKSTEP_PTX_ARCHES 80 90)
set(LOCKSTEP_SASS_ARCHES 80 90 100)
function(lockstep_device_image target source kernels)
  set(clang ${CMAKE_CXX_COMPILER})
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL Clang OR CMAKE_CXX_COMPILER_VERSION VERSION_LESS 19)
    find_program(LOCKSTEP_DEVICE_CLANG clang++-19)
    if(NOT LOCKSTEP_DEVICE_CLANG)
      message(FATAL_ERROR "There is no clang++-19, which compiles the GPU's kernels (no CUDA is needed): "
        "run tools/deps --build, or apt-get install clang-19")
    endif()
    set(clang ${LOCKSTEP_DEVICE_CLANG})
  endif()
  get_filename_component(name ${kernels} NAME_WE)
  set(definitions)
  set(images)
  foreach(arch IN LISTS LOCKSTEP_PTX_ARCHES)
    set(ptx ${CMAKE_CURRENT_BINARY_DIR}/${name}_${arch}.ptx)
    add_custom_command(OUTPUT ${ptx}
      COMMAND ${clang} -x cuda --cuda-device-only --cuda-gpu-arch=sm_${arch} -nocudainc -nocudalib
        --cuda-feature=+ptx80 -std=c++20 -O3 -ffp-contract=off -Wall -Wextra -Werror -I ${CMAKE_SOURCE_DIR}
        -S -MD -MF ${ptx}.d -MT ${ptx} -o ${ptx} ${CMAKE_CURRENT_SOURCE_DIR}/${kernels}
      DEPENDS ${kernels} DEPFILE ${ptx}.d COMMENT "Compiling GPU kernels for sm_${arch}" VERBATIM)
    list(APPEND images ${ptx})
    list(APPEND definitions LOCKSTEP_PTX_${arch}="${ptx}")
  endforeach()
  if(LOCKSTEP_NVCC)
    get_filename_component(nvcc_folder ${LOCKSTEP_NVCC} REALPATH)
    get_filename_component(nvcc_folder ${nvcc_folder} DIRECTORY)
    set(ptx ${CMAKE_CURRENT_BINARY_DIR}/${name}_80.ptx)
    set(cubins)
    set(parts)
    foreach(arch IN LISTS LOCKSTEP_SASS_ARCHES)
      set(cubin ${CMAKE_CURRENT_BINARY_DIR}/${name}_${arch}.cubin)
      add_custom_command(OUTPUT ${cubin}
        COMMAND ${nvcc_folder}/ptxas -arch=sm_${arch} -O3 --warn-on-spills --warning-as-error -o ${cubin} ${ptx}
        DEPENDS ${ptx} COMMENT "Assembling GPU kernels for sm_${arch}" VERBATIM)
      list(APPEND cubins ${cubin})
      list(APPEND parts --image3=kind=elf,sm=${arch},file=${cubin})
    endforeach()
    set(sass ${CMAKE_CURRENT_BINARY_DIR}/${name}.fatbin)
    add_custom_command(OUTPUT ${sass}
      COMMAND ${nvcc_folder}/fatbinary -64 --create=${sass} ${parts}
      DEPENDS ${cubins} VERBATIM)
    list(APPEND images ${sass})
    list(APPEND definitions LOCKSTEP_SASS="${sass}")
  endif()
  set_source_files_properties(${source} PROPERTIES
    COMPILE_DEFINITIONS "${definitions}" OBJECT_DEPENDS "${images}")
  target_sources(${target} PRIVATE ${images})
endfunction()
