// The key from which all jobs' keys are derived: Secret lockstep-master-key in the system
// namespace, the only Secret that the operator may read. Made if it is not there; several versions
// may stand in it ("v1", "v2", ...), and a job keeps the one it began with.
#ifndef LOCKSTEP_OPERATOR_CONTROLLER_JOBS_MASTER_KEY_H_
#define LOCKSTEP_OPERATOR_CONTROLLER_JOBS_MASTER_KEY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "operator/kube/api.h"
#include "operator/kube/client.h"

namespace lockstep::control {

inline constexpr const char* kMasterKeySecret = "lockstep-master-key";

class MasterKeys {
 public:
  // The keys in the Secret's JSON. Invalid: no entry is a key.
  static Result<MasterKeys> FromSecret(const std::string& json);

  // The highest version: for jobs that begin now.
  int32_t newest() const { return versions_.rbegin()->first; }
  // Null: the Secret does not hold this version.
  const std::vector<uint8_t>* Find(int32_t version) const;

 private:
  std::map<int32_t, std::vector<uint8_t>> versions_;  // never empty
};

// Reads the Secret, or makes it with one random key; of several operators that try, one wins and
// all read the same. Never blocks; `done` comes from a thread of the client's.
void LoadMasterKeys(kube::Client* client, const std::string& system_namespace,
                    const std::function<void(kube::ApiResult<MasterKeys>)>& done);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_CONTROLLER_JOBS_MASTER_KEY_H_
