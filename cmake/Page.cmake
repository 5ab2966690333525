# The page of `lockstep run --ui`: bundled by tools/lib/page/bundle, compressed and embedded. With
# LOCKSTEP_PAGE=AUTO a computer without its tools builds programs without the page, which say so.

# lockstep_page(TARGET SOURCE PARTS...): SOURCE of TARGET gets the paths LOCKSTEP_PAGE_HTML and
# LOCKSTEP_PAGE_CSP, which are not defined where there is no page. PARTS: what the page is made of.
function(lockstep_page target source)
  set(bundler ${CMAKE_SOURCE_DIR}/tools/lib/page/bundle)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/page)
  if(LOCKSTEP_PAGE STREQUAL "OFF")
    return()
  endif()
  # Whether its tools are there, only it knows.
  execute_process(COMMAND ${bundler} ${folder}/tried
    RESULT_VARIABLE failed OUTPUT_VARIABLE words ERROR_VARIABLE words OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT failed STREQUAL "0")
    if(NOT LOCKSTEP_PAGE STREQUAL "AUTO")
      message(FATAL_ERROR "LOCKSTEP_PAGE is ON and the page can't be bundled: ${failed} ${words}")
    endif()
    message(STATUS "No page in lockstep, so --ui will say that: ${failed} ${words}")
    return()
  endif()
  # -n: no name and no time in it, so that the same page makes the same program.
  add_custom_command(OUTPUT ${folder}/page.html.gz ${folder}/page.csp
    COMMAND ${bundler} ${folder}
    COMMAND gzip -9nkf ${folder}/page.html
    DEPENDS ${bundler} ${ARGN} COMMENT "Bundling the page" VERBATIM)
  set(made ${folder}/page.html.gz ${folder}/page.csp)
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS "${made}" COMPILE_DEFINITIONS
    "LOCKSTEP_PAGE_HTML=\"${folder}/page.html.gz\";LOCKSTEP_PAGE_CSP=\"${folder}/page.csp\"")
  target_sources(${target} PRIVATE ${made})
endfunction()
