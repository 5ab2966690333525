#include "worker/trainer/collectives/group/alone.h"

#include <cstring>

namespace lockstep::collectives {

Status AloneRendezvous::Set(std::string_view key, std::string_view value) {
  if (values_.emplace(key, value).second) return {};
  return Error::Conflict("the key " + std::string(key) + " is set already");
}

Result<std::string> AloneRendezvous::Get(std::string_view key, Time) {
  const auto found = values_.find(key);
  if (found == values_.end()) return Error::Timeout("no rank set the key " + std::string(key));
  return found->second;
}

Status AloneTransport::Start(const Operation& operation) {
  const size_t bytes = operation.out.count * SizeOf(operation.out.type);
  if (operation.in.data != operation.out.data && bytes > 0) {
    std::memmove(operation.out.data, operation.in.data, bytes);
  }
  return {};
}

}  // namespace lockstep::collectives
