#include "core/gang/coordinator/edited_code.h"

namespace lockstep::core {

bool EditedCode::Take(const std::optional<DesiredState::Code>& code, const std::string& receiver) {
  const bool other =
      code.has_value() != wanted_.has_value() || (code && code->digest != wanted_->digest);
  wanted_ = code;
  receiver_ = receiver;
  if (other) ran_ = false;
  if (!holds() || (!other && wanted_ && wanted_->watched)) return false;
  Release();
  return true;
}

void EditedCode::OnFirstStep(const std::string& digest) {
  ran_ = ran_ || (wanted_ && wanted_->digest == digest);
}

bool EditedCode::Caused(const Failure& failure, const std::string& digest) const {
  return wanted_ && wanted_->watched && !ran_ && wanted_->digest == digest &&
         ClassOf(failure.cause) == CauseClass::kApplication;
}

}  // namespace lockstep::core
