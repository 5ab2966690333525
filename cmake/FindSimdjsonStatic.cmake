# Simdjson::Simdjson: the libsimdjson.a of tools/lib/simdjson.
find_path(SIMDJSON_STATIC_INCLUDE simdjson.h NO_CACHE)
find_library(SIMDJSON_STATIC_LIBRARY NAMES libsimdjson.a NO_CACHE)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SimdjsonStatic
  REQUIRED_VARS SIMDJSON_STATIC_LIBRARY SIMDJSON_STATIC_INCLUDE)

if(SimdjsonStatic_FOUND AND NOT TARGET Simdjson::Simdjson)
  add_library(Simdjson::Simdjson UNKNOWN IMPORTED GLOBAL)
  set_target_properties(Simdjson::Simdjson PROPERTIES
    IMPORTED_LOCATION ${SIMDJSON_STATIC_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${SIMDJSON_STATIC_INCLUDE})
endif()
