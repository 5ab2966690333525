#include "cli/say.h"

#include <iostream>

#include "base/file.h"
#include "core/text/limited_text.h"

namespace lockstep::cli {

void Say(std::string_view message) {
  std::cerr << "lockstep: " << core::Printable(message) << "\n";
}

bool WriteOrSay(const std::string& path, std::string_view text) {
  if (path.empty()) return true;
  const Status written = WriteFileAtomically(path, text);
  if (!written.ok()) Say(written.error().message);
  return written.ok();
}

}  // namespace lockstep::cli
