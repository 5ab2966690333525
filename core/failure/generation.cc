#include "core/failure/generation.h"

#include <string>

namespace lockstep::core {

std::string Generation::ToString() const {
  return std::to_string(attempt) + "-" + std::to_string(n);
}

}  // namespace lockstep::core
