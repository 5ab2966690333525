# OpenPmix::OpenPmix: libpmix.a with all that it needs, also as static libraries. Debian's holds its
# components, so nothing is opened at run time.
find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(PC_PMIX QUIET pmix)
endif()
find_path(OpenPmix_INCLUDE_DIR pmix_server.h HINTS ${PC_PMIX_INCLUDE_DIRS})
find_library(OpenPmix_LIBRARY NAMES libpmix.a HINTS ${PC_PMIX_LIBDIR})
set(parts)
foreach(part IN ITEMS event_core event_pthreads z)
  find_library(OpenPmix_${part}_LIBRARY NAMES lib${part}.a)
  list(APPEND parts OpenPmix_${part}_LIBRARY)
endforeach()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenPmix REQUIRED_VARS OpenPmix_LIBRARY OpenPmix_INCLUDE_DIR ${parts}
  VERSION_VAR PC_PMIX_VERSION)

if(OpenPmix_FOUND AND NOT TARGET OpenPmix::OpenPmix)
  find_package(HwlocStatic REQUIRED)
  add_library(OpenPmix::OpenPmix UNKNOWN IMPORTED GLOBAL)
  set_target_properties(OpenPmix::OpenPmix PROPERTIES
    IMPORTED_LOCATION ${OpenPmix_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${OpenPmix_INCLUDE_DIR})
  foreach(part IN LISTS parts)
    target_link_libraries(OpenPmix::OpenPmix INTERFACE ${${part}})
  endforeach()
  target_link_libraries(OpenPmix::OpenPmix INTERFACE Hwloc::Hwloc m ${CMAKE_DL_LIBS} Threads::Threads)
endif()
