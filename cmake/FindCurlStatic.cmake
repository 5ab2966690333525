# Curl::Curl: the libcurl.a of tools/lib/libcurl and what it needs. FindCURL would name c-ares and
# OpenSSL by their shared files. By name here, a static program gets the static libraries.
find_path(CURL_STATIC_INCLUDE curl/curl.h NO_CACHE)
find_library(CURL_STATIC_LIBRARY NAMES libcurl.a NO_CACHE)
find_library(CARES_STATIC_LIBRARY NAMES libcares.a NO_CACHE)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CurlStatic
  REQUIRED_VARS CURL_STATIC_LIBRARY CURL_STATIC_INCLUDE CARES_STATIC_LIBRARY)

if(CurlStatic_FOUND AND NOT TARGET Curl::Curl)
  add_library(Curl::Curl UNKNOWN IMPORTED GLOBAL)
  set_target_properties(Curl::Curl PROPERTIES
    IMPORTED_LOCATION ${CURL_STATIC_LIBRARY}
    INTERFACE_INCLUDE_DIRECTORIES ${CURL_STATIC_INCLUDE})
  target_link_libraries(Curl::Curl INTERFACE ${CARES_STATIC_LIBRARY} ssl crypto)
endif()
