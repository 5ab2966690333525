// The Secret <job>-key-… with the gang's key, as JSON for the API server. Key and name are derived
// from the master key and the job's UID, so they can be made again. An existing object of that name
// is this job's Secret, because the name cannot be guessed without the key. Must not be logged.
#ifndef LOCKSTEP_OPERATOR_OBJECTS_KEY_SECRET_H_
#define LOCKSTEP_OPERATOR_OBJECTS_KEY_SECRET_H_

#include <cstdint>
#include <span>
#include <string>

#include "base/crypto/hkdf.h"
#include "base/result.h"
#include "core/model/spec.h"

namespace lockstep::control {

// In the Secret, and the file's name in the pod: the key's 32 bytes as they are.
inline constexpr const char* kKeyEntry = "gang";

// The key by which the job's agents and the operator authenticate each other. Invalid: the master
// key is too short, or the job has no UID.
Result<Key> GangKey(std::span<const uint8_t> master_key, const core::TrainingJob& job);

// "gpt-key-" and 16 hexadecimal digits. Jobs that began under an operator that named it after the
// UID get another Secret beside the one that their pods mount.
std::string KeySecretName(const core::TrainingJob& job, const Key& key);

std::string KeySecretObject(const core::TrainingJob& job, const Key& key);

}  // namespace lockstep::control

#endif  // LOCKSTEP_OPERATOR_OBJECTS_KEY_SECRET_H_
