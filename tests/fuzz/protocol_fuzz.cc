// The gang's messages and the JSON bodies beside them: whatever comes is refused, or reads back as
// it is written again.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/gang/protocol/messages.h"
#include "core/gang/status/status_api.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  lockstep::Result<lockstep::core::Message> message = lockstep::core::Decode(bytes);
  if (message.ok() && lockstep::core::Encode(*message) != bytes) std::abort();
  auto status = lockstep::core::ParseGangStatus(bytes);
  if (status.ok() && !lockstep::core::ParseGangStatus(ToJson(*status)).ok()) std::abort();
  auto desired = lockstep::core::ParseDesiredState(bytes);
  if (desired.ok() && !lockstep::core::ParseDesiredState(ToJson(*desired)).ok()) std::abort();
  auto termination = lockstep::core::ParseTermination(bytes);
  if (termination.ok() && ToJson(*termination).size() > lockstep::core::kMaxTerminationMessage) {
    std::abort();
  }
  return 0;
}
