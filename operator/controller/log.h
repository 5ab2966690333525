// The operator's log: one line an event on stderr, as JSON or as text. Bodies, keys and tokens
// never get here.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_LOG_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_LOG_H_

#include <string>

namespace lockstep::control {

// spdlog's default logger from now on. `level`: debug, info, warn or error.
void SetUpLog(const std::string& level, bool json);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_LOG_H_
