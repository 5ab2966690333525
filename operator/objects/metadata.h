// The fields of the API server's answer to a write that show what the write did.
#ifndef LOCKSTEP_OPERATOR_OBJECTS_METADATA_H_
#define LOCKSTEP_OPERATOR_OBJECTS_METADATA_H_

#include <string>

namespace lockstep::control {

struct Metadata {
  std::string resource_version;  // empty: the answer is no object (a Status)
  std::string owner_uid;         // of the controlling owner
  bool deleting = false;
  std::string uid;
};

// Metadata of any object's JSON; unreadable fields stay empty.
Metadata ReadMetadata(const std::string& json);

// Whether its controlling owner is a TrainingJob of this name. If the UID differs, the owner is an
// earlier, deleted job whose objects the garbage collector has not removed yet.
bool IsOfTrainingJob(const std::string& json, const std::string& job);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_OBJECTS_METADATA_H_
