// Prints every state of the coordinator and of the member, one "ENUM NAME" a line: the tests that
// kill things in each of them are generated from this list.
#include <cstdio>

#include "core/gang/coordinator/coordinator.h"
#include "core/gang/protocol/messages.h"

int main() {
  using lockstep::core::CoordinatorPhase;
  using lockstep::core::MemberPhase;
  for (int i = 0; i < lockstep::core::kCoordinatorPhaseCount; ++i) {
    std::printf("coordinator %s\n", ToString(static_cast<CoordinatorPhase>(i)));
  }
  for (int i = 0; i < lockstep::core::kMemberPhaseCount; ++i) {
    std::printf("member %s\n", ToString(static_cast<MemberPhase>(i)));
  }
  return 0;
}
