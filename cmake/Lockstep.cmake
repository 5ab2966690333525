# Compiler settings, where libraries are found, and the functions every folder uses.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
# No NDEBUG: an assert that fails in a shipped agent ends it, which its guard and its peers survive;
# going on in a state that cannot be is what fencing exists to prevent.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")

find_program(LOCKSTEP_CCACHE ccache)
if(LOCKSTEP_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${LOCKSTEP_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${LOCKSTEP_CCACHE})
endif()

# Static libraries first, in every preset: what is tested is what is shipped.
set(CMAKE_FIND_LIBRARY_SUFFIXES .a .so)
set(OPENSSL_USE_STATIC_LIBS ON)

# tools/deps builds these, each under a name that follows from its recipe.
if(LOCKSTEP_ARM64) # cmake/arm64.cmake
  set(lockstep_cache ${LOCKSTEP_ARM64})
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(lockstep_cache $ENV{XDG_CACHE_HOME}/lockstep)
else()
  set(lockstep_cache $ENV{HOME}/.cache/lockstep)
endif()
foreach(recipe prometheus-cpp libcurl simdjson)
  file(SHA256 ${CMAKE_CURRENT_SOURCE_DIR}/tools/lib/${recipe} recipe_sum)
  string(SUBSTRING ${recipe_sum} 0 12 recipe_sum)
  list(APPEND CMAKE_PREFIX_PATH ${lockstep_cache}/${recipe}-${recipe_sum})
endforeach()

# An assert holds its file's name. ccache makes names below the root relative to the build folder
# (CCACHE_BASEDIR), so these are mapped, too. The namespace keeps ccache from taking an object that
# was compiled without the maps, because tools/lib/common.sh leaves the maps out of its hashes, and
# an assert names its file (__builtin_FILE) only after the preprocessor, whose output ccache hashes.
if(LOCKSTEP_REPRODUCIBLE)
  file(RELATIVE_PATH up ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
  string(REGEX REPLACE "/$" "" up ${up})
  add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}/= -ffile-prefix-map=${up}/=)
  foreach(prefix IN LISTS CMAKE_PREFIX_PATH)
    get_filename_component(name ${prefix} NAME)
    add_compile_options(-ffile-prefix-map=${prefix}/=${name}/)
  endforeach()
  if(CMAKE_SYSROOT)
    add_compile_options(-ffile-prefix-map=${CMAKE_SYSROOT}=)
  endif()
  if(LOCKSTEP_CCACHE)
    set(CMAKE_C_COMPILER_LAUNCHER env CCACHE_NAMESPACE=lockstep-reproducible ${LOCKSTEP_CCACHE})
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
  endif()
endif()

find_package(Threads REQUIRED)

add_library(lockstep_options INTERFACE)
target_include_directories(lockstep_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(lockstep_options INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Werror $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>
  -fno-omit-frame-pointer -ffunction-sections -fdata-sections)
target_link_options(lockstep_options INTERFACE
  -fuse-ld=lld -Wl,--gc-sections $<$<CONFIG:Release>:-s>)
# What a release has against whoever finds a bug in it; tests/tools/test_shipped.py looks for it in
# what was built. The sanitizers see more without.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT LOCKSTEP_SANITIZE)
  target_compile_options(lockstep_options INTERFACE
    -fstack-protector-strong -D_FORTIFY_SOURCE=3
    $<$<STREQUAL:${CMAKE_SYSTEM_PROCESSOR},x86_64>:-fcf-protection>
    $<$<STREQUAL:${CMAKE_SYSTEM_PROCESSOR},aarch64>:-mbranch-protection=standard>)
  target_link_options(lockstep_options INTERFACE -Wl,-z,relro,-z,now)
endif()
if(LOCKSTEP_SANITIZE)
  target_compile_options(lockstep_options INTERFACE
    -fsanitize=${LOCKSTEP_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(lockstep_options INTERFACE -fsanitize=${LOCKSTEP_SANITIZE})
  # The sanitizers' runtimes need the dynamic loader.
  set(LOCKSTEP_STATIC OFF)
endif()
if(LOCKSTEP_FUZZ)
  # Counts edges in every library, so that the fuzzer is guided through all of them.
  target_compile_options(lockstep_options INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(lockstep_options INTERFACE -fsanitize=fuzzer-no-link)
  set(LOCKSTEP_STATIC OFF)
endif()

# lockstep_sources(VARIABLE PATTERN): the files of this folder and those below it that match, but for
# folders with a CMakeLists.txt of their own.
function(lockstep_sources variable pattern)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${pattern})
  file(GLOB_RECURSE others CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/CMakeLists.txt)
  list(REMOVE_ITEM others ${CMAKE_CURRENT_SOURCE_DIR}/CMakeLists.txt)
  foreach(other IN LISTS others)
    get_filename_component(folder ${other} DIRECTORY)
    list(FILTER sources EXCLUDE REGEX "^${folder}/")
  endforeach()
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()

# lockstep_join(VARIABLE): the sources in VARIABLE become files in the build folder that include those
# of one folder each, so that what all of them include is compiled once. The paths in them start at the
# root of the tree, as CMake's own UNITY_BUILD can't write them: ccache then knows them again in another
# clone.
function(lockstep_join variable)
  set(joined)
  set(folders)
  foreach(source IN LISTS ${variable})
    get_filename_component(folder ${source} DIRECTORY)
    list(APPEND folders ${folder})
    file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${source})
    string(MD5 key ${folder})
    string(APPEND text_${key} "#include \"${path}\"\n")
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    string(MD5 key ${folder})
    file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${folder})
    set(file ${CMAKE_CURRENT_BINARY_DIR}/unity/${path}.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text_${key}}" @ONLY)
    list(APPEND joined ${file})
  endforeach()
  set(${variable} ${joined} PARENT_SCOPE)
endfunction()

# lockstep_library(NAME [SEPARATE folder...] [SMALL folder...] DEPENDS target...): one static library,
# lockstep_NAME, of the .cc files of this folder (lockstep_sources), less a program's main.cc. With
# LOCKSTEP_UNITY they are compiled together, a folder at a time (lockstep_join), but for the files of the
# folders SEPARATE. A release compiles the folders SMALL for size: they run once, at a program's start.
function(lockstep_library name)
  cmake_parse_arguments(arg "" "" "SEPARATE;SMALL;DEPENDS" ${ARGN})
  lockstep_sources(sources *.cc)
  list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/main.cc)
  if(LOCKSTEP_UNITY)
    set(separate)
    foreach(folder IN LISTS arg_SEPARATE)
      set(those ${sources})
      list(FILTER those INCLUDE REGEX "^${CMAKE_CURRENT_SOURCE_DIR}/${folder}/[^/]+$")
      list(REMOVE_ITEM sources ${those})
      list(APPEND separate ${those})
    endforeach()
    lockstep_join(sources)
    list(APPEND sources ${separate})
  endif()
  foreach(folder IN LISTS arg_SMALL)
    set(those ${sources})
    list(FILTER those INCLUDE REGEX "/${folder}(/[^/]+)?\\.cc$")
    set_source_files_properties(${those} PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-Oz>)
  endforeach()
  add_library(lockstep_${name} STATIC ${sources})
  target_link_libraries(lockstep_${name} PUBLIC lockstep_options Threads::Threads ${arg_DEPENDS})
endfunction()

# lockstep_program(NAME [SHARED] DEPENDS target...): bin/NAME of this folder's main.cc, as one fully
# static file where LOCKSTEP_STATIC says so; never with SHARED, for what exists as shared library only. A
# release folds functions of the same code whose address nobody takes, and strings that end alike.
function(lockstep_program name)
  cmake_parse_arguments(arg "SHARED" "" "DEPENDS" ${ARGN})
  add_executable(${name} main.cc)
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS})
  target_link_options(${name} PRIVATE $<$<CONFIG:Release>:-Wl,--icf=safe,-O2>)
  if(LOCKSTEP_STATIC AND NOT arg_SHARED)
    target_link_options(${name} PRIVATE -static-pie -Wl,-z,pack-relative-relocs)
  else()
    target_link_options(${name} PRIVATE -pie)
  endif()
endfunction()

# lockstep_test(NAME [SEPARATE] [OPTIMIZED] DEPENDS target... [LABEL label...] [UNSANITIZED test...]): one GoogleTest
# program of this folder's *_test.cc files (lockstep_sources), run as one ctest test. With LOCKSTEP_UNITY
# they are compiled together, a folder at a time (lockstep_join), unless SEPARATE, and without optimization,
# which takes half the time, unless OPTIMIZED, for tests that compute much. All of them run again under
# AddressSanitizer, and those with the label threaded (default: unit) under ThreadSanitizer, but for those
# tests that are UNSANITIZED (as --gtest_filter names them). Target tests_LABEL builds all tests of a label.
function(lockstep_test name)
  cmake_parse_arguments(arg "SEPARATE;OPTIMIZED" "" "DEPENDS;LABEL;UNSANITIZED" ${ARGN})
  lockstep_sources(sources *_test.cc)
  if(LOCKSTEP_UNITY AND NOT arg_SEPARATE)
    # These include headers of other projects, with options of their own.
    set(foreign ${sources})
    list(FILTER foreign INCLUDE REGEX "_abi_test\\.cc$")
    list(FILTER sources EXCLUDE REGEX "_abi_test\\.cc$")
    lockstep_join(sources)
    list(APPEND sources ${foreign})
  endif()
  find_package(GTest REQUIRED)
  add_executable(${name}_test ${sources})
  target_link_libraries(${name}_test
    PRIVATE lockstep_options ${arg_DEPENDS} GTest::gmock GTest::gtest_main)
  if(NOT arg_OPTIMIZED AND NOT LOCKSTEP_SANITIZE MATCHES thread)
    # ThreadSanitizer is too slow then. glibc warns that it checks nothing without optimization.
    target_compile_options(${name}_test PRIVATE -O0 -Wno-\#warnings)
  endif()
  # Tests that read documents and examples find them from the root of the tree.
  add_test(NAME ${name} COMMAND ${name}_test WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  lockstep_label(${name} ${name}_test ${arg_LABEL})
  if(arg_OPTIMIZED)
    set_tests_properties(${name} PROPERTIES COST 100) # long ones first
  endif()
  if(LOCKSTEP_SANITIZE AND arg_UNSANITIZED)
    list(JOIN arg_UNSANITIZED : unsanitized)
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "GTEST_FILTER=-${unsanitized}")
  endif()
endfunction()

# lockstep_label(TEST TARGET label...): for a test that lockstep_test() did not make.
function(lockstep_label test target)
  set(labels ${ARGN})
  if(NOT labels)
    set(labels unit)
  endif()
  set_tests_properties(${test} PROPERTIES TIMEOUT 600 LABELS "${labels}")
  foreach(label IN LISTS labels)
    if(NOT TARGET tests_${label})
      add_custom_target(tests_${label})
    endif()
    add_dependencies(tests_${label} ${target})
  endforeach()
endfunction()
