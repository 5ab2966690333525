#include "worker/trainer/run/environment.h"

#include <cstdlib>

namespace lockstep::trainer {

namespace {
std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}
}  // namespace

Environment ReadEnvironment() {
  return {Variable("LOCKSTEP_JOB_UID"), Variable("LOCKSTEP_GENERATION"),
          Variable("LOCKSTEP_SOCKET"), Variable("LOCKSTEP_CHECKPOINT_DIR"),
          Variable("LOCKSTEP_RESUME_DIR")};
}

}  // namespace lockstep::trainer
