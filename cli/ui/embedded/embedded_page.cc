#include "cli/ui/embedded/embedded_page.h"

#include <cstddef>

// Paths from cmake/Page.cmake.
#ifdef LOCKSTEP_PAGE_HTML
#define EMBED(name, path)             \
  asm(".pushsection .rodata." #name   \
      ", \"a\"\n"                     \
      ".global " #name "\n" #name     \
      ":\n"                           \
      ".incbin \"" path               \
      "\"\n"                          \
      ".global " #name "_end\n" #name \
      "_end:\n"                       \
      ".byte 0\n"                     \
      ".popsection\n");               \
  extern "C" const char name[];       \
  extern "C" const char name##_end[]

EMBED(lockstep_page, LOCKSTEP_PAGE_HTML);
EMBED(lockstep_page_csp, LOCKSTEP_PAGE_CSP);

#endif

namespace lockstep::cli {

#ifdef LOCKSTEP_PAGE_HTML
std::string_view EmbeddedHtml() {
  return {lockstep_page, static_cast<size_t>(lockstep_page_end - lockstep_page)};
}
std::string_view EmbeddedCsp() {
  return {lockstep_page_csp, static_cast<size_t>(lockstep_page_csp_end - lockstep_page_csp)};
}
#else
std::string_view EmbeddedHtml() { return {}; }
std::string_view EmbeddedCsp() { return {}; }
#endif

}  // namespace lockstep::cli
