// The page itself: one HTML file without any request to elsewhere, made from cli/ui/page by
// tools/lib/page/bundle and embedded when this program was built.
#ifndef LOCKSTEP_CLI_UI_PAGE_FILE_H_
#define LOCKSTEP_CLI_UI_PAGE_FILE_H_

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep::cli {

struct PageFile {
  std::string_view html;  // compressed by gzip
  std::string_view csp;   // the value of Content-Security-Policy, with the hashes of its parts
};

// Empty where the tools that make the page were missing when this program was built.
std::optional<PageFile> EmbeddedPage();
// What to say then.
extern const char* const kNoPage;

// Whole, up to 64 MiB. Invalid for what gzip did not write.
Result<std::string> Decompress(std::string_view gzip);
std::string Compress(std::string_view text);

// The page with `view` inside, which opens without a server. `view`: JSON. Invalid: `html` has no
// place for it.
Result<std::string> SavedPage(std::string html, std::string_view view);

}  // namespace lockstep::cli

#endif  // LOCKSTEP_CLI_UI_PAGE_FILE_H_
