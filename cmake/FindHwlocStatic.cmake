# Hwloc::Hwloc: libhwloc.a. It needs libudev, which has no static form; worker/topology/udev_stubs.c
# stands in for it.
find_path(HWLOC_INCLUDE_DIR hwloc.h)
find_library(HWLOC_LIBRARY NAMES libhwloc.a)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(HwlocStatic REQUIRED_VARS HWLOC_LIBRARY HWLOC_INCLUDE_DIR)

if(HwlocStatic_FOUND AND NOT TARGET Hwloc::Hwloc)
  add_library(Hwloc::Hwloc UNKNOWN IMPORTED GLOBAL)
  set_target_properties(Hwloc::Hwloc PROPERTIES
    IMPORTED_LOCATION ${HWLOC_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${HWLOC_INCLUDE_DIR})
  add_library(lockstep_udev_stubs STATIC ${CMAKE_SOURCE_DIR}/worker/topology/udev_stubs.c)
  target_link_libraries(Hwloc::Hwloc INTERFACE lockstep_udev_stubs m)
endif()
