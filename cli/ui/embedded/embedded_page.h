// What CMake embeds (cmake/Page.cmake): empty where it found no tools for it.
#ifndef LOCKSTEP_CLI_UI_EMBEDDED_EMBEDDED_PAGE_H_
#define LOCKSTEP_CLI_UI_EMBEDDED_EMBEDDED_PAGE_H_

#include <string_view>

namespace lockstep::cli {

std::string_view EmbeddedHtml();  // compressed by gzip
std::string_view EmbeddedCsp();

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_UI_EMBEDDED_EMBEDDED_PAGE_H_
