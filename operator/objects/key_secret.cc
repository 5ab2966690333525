#include "operator/objects/key_secret.h"

#include <openssl/evp.h>

#include <cassert>

#include "base/crypto/sha256.h"
#include "core/model/names.h"
#include "operator/objects/object_parts.h"

namespace lockstep::control {
namespace {

std::string Base64(std::span<const uint8_t> bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), bytes.data(),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(size));
  return text;
}

constexpr size_t kNameDigits = 16;

}  // namespace

Result<Key> GangKey(std::span<const uint8_t> master_key, const core::TrainingJob& job) {
  return DeriveKey(master_key, job.metadata.uid, "gang");
}

std::string KeySecretName(const core::TrainingJob& job, const Key& key) {
  Sha256 digest;  // nothing of the key can be read out of it
  digest.Add(std::as_bytes(std::span(std::string_view("lockstep name of the Secret"))));
  digest.Add(std::as_bytes(std::span(key)));
  return job.metadata.name + "-key-" + digest.Hex().substr(0, kNameDigits);
}

std::string KeySecretObject(const core::TrainingJob& job, const Key& key) {
  const core::Metadata& metadata = job.metadata;
  return DumpJson(
      Json{{"apiVersion", "v1"},
           {"kind", "Secret"},
           {"metadata", MetadataOf(job, KeySecretName(job, key), core::JobLabels(metadata.name))},
           {"type", "Opaque"},
           {"immutable", true},
           {"data", {{kKeyEntry, Base64(key)}}}});
}

}  // namespace lockstep::control
