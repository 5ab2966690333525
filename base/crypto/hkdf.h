// Keys of a job, derived from the cluster's master key by HKDF-SHA256 (RFC 5869), so that a job's
// Secret can be made again identically at any time and one job's key says nothing of another's.
//
//   Result<Key> key = DeriveKey(master, job_uid, "gang");
//
// The job's UID is HKDF's salt; info is "lockstep/1 " and the purpose.
#ifndef LOCKSTEP_BASE_CRYPTO_HKDF_H_
#define LOCKSTEP_BASE_CRYPTO_HKDF_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep {

inline constexpr size_t kKeySize = 32;
inline constexpr size_t kMinMasterKeySize = 16;

using Key = std::array<uint8_t, kKeySize>;

// RFC 5869 with SHA-256: `size` bytes, 1 to 255 * 32. Input key material must not be empty.
Result<std::vector<uint8_t>> HkdfSha256(std::span<const uint8_t> input_key,
                                        std::span<const uint8_t> salt,
                                        std::span<const uint8_t> info, size_t size);

// The job's key for one purpose. Invalid when the master key is shorter than kMinMasterKeySize or a
// name is empty.
Result<Key> DeriveKey(std::span<const uint8_t> master, std::string_view job_uid,
                      std::string_view purpose);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_CRYPTO_HKDF_H_
