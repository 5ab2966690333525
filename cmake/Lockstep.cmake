# Compiler settings and the two functions every folder uses.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_FIND_LIBRARY_SUFFIXES_DEFAULT ${CMAKE_FIND_LIBRARY_SUFFIXES})

find_program(LOCKSTEP_CCACHE ccache)
if(LOCKSTEP_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${LOCKSTEP_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${LOCKSTEP_CCACHE})
endif()

add_library(lockstep_options INTERFACE)
target_include_directories(lockstep_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(lockstep_options INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Werror -fno-omit-frame-pointer
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>)
if(LOCKSTEP_SANITIZE)
  target_compile_options(lockstep_options INTERFACE
    -fsanitize=${LOCKSTEP_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(lockstep_options INTERFACE -fsanitize=${LOCKSTEP_SANITIZE})
  # The sanitizers' runtimes need the dynamic loader.
  set(LOCKSTEP_STATIC OFF)
endif()
if(LOCKSTEP_TIDY)
  find_program(LOCKSTEP_CLANG_TIDY NAMES clang-tidy-19 clang-tidy REQUIRED)
  set(CMAKE_CXX_CLANG_TIDY ${LOCKSTEP_CLANG_TIDY})
endif()

find_package(Threads REQUIRED)

# lockstep_library(NAME DEPENDS target...): one static library of the .cc files in this folder and
# below it, called lockstep_NAME.
function(lockstep_library name)
  cmake_parse_arguments(arg "" "" "DEPENDS;EXCLUDE" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  foreach(excluded IN LISTS arg_EXCLUDE)
    list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/${excluded})
  endforeach()
  add_library(lockstep_${name} STATIC ${sources})
  target_link_libraries(lockstep_${name} PUBLIC lockstep_options Threads::Threads ${arg_DEPENDS})
endfunction()

# lockstep_test(NAME DEPENDS target... [LABEL label]): one GoogleTest program of the *_test.cc
# files in this folder, run as one ctest test.
function(lockstep_test name)
  cmake_parse_arguments(arg "" "LABEL" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc)
  if(NOT sources)
    return()
  endif()
  find_package(GTest REQUIRED)
  add_executable(${name}_test ${sources})
  target_link_libraries(${name}_test PRIVATE lockstep_options ${arg_DEPENDS} GTest::gmock GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name}_test)
  set_tests_properties(${name} PROPERTIES TIMEOUT 300)
  if(arg_LABEL)
    set_tests_properties(${name} PROPERTIES LABELS ${arg_LABEL})
  endif()
endfunction()
