// EditedCode: the program's code that the operator wants the ranks to run, and whether it works. If
// a user edits it now and it fails before its first step, the gang waits for the next edit. Pure.
#ifndef LOCKSTEP_CORE_GANG_COORDINATOR_EDITED_CODE_H_
#define LOCKSTEP_CORE_GANG_COORDINATOR_EDITED_CODE_H_

#include <optional>
#include <string>

#include "core/failure/failure.h"
#include "core/gang/coordinator/desired_state.h"

namespace lockstep::core {

class EditedCode {
 public:
  // The operator's latest word. True: the gang waited for an edit, and waits no longer.
  // `receiver`: the process that brought the code (CodeOffer); "": one that never leaves.
  bool Take(const std::optional<DesiredState::Code>& code, const std::string& receiver = "");
  // If it brought the code, nobody edits that now. A gang that waits for an edit goes on waiting.
  void OnEditorLeft(const std::string& receiver) {
    if (wanted_ && !receiver.empty() && receiver == receiver_) wanted_->watched = false;
  }
  // Digest of the code of the next generation; "": the operator has named none.
  std::string digest() const { return wanted_ ? wanted_->digest : ""; }

  // A generation with the code of this digest did its first step.
  void OnFirstStep(const std::string& digest);
  // Whether the edit caused this failure of a generation with the code of this digest: a user edits
  // the code, and no generation has done a step with it.
  bool Caused(const Failure& failure, const std::string& digest) const;

  // The gang waits for the next edit because of `why`.
  void Hold(const std::string& why) { broken_ = why; }
  void Release() { broken_.clear(); }
  bool holds() const { return !broken_.empty(); }

 private:
  std::optional<DesiredState::Code> wanted_;
  std::string receiver_;
  bool ran_ = false;    // a generation has done a step with it
  std::string broken_;  // why ranks of the edited code failed; "": they did not, or not yet
};

}  // namespace lockstep::core

#endif  // LOCKSTEP_CORE_GANG_COORDINATOR_EDITED_CODE_H_
