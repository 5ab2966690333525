#include "cli/say.h"

#include <iostream>

#include "core/text/limited_text.h"

namespace lockstep::cli {

void Say(std::string_view message) {
  std::cerr << "lockstep: " << core::Printable(message) << "\n";
}

}  // namespace lockstep::cli
