#include "base/crypto/hkdf.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <algorithm>
#include <memory>
#include <string>

namespace lockstep {
namespace {

std::span<const uint8_t> Bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

OSSL_PARAM OctetParam(const char* name, std::span<const uint8_t> bytes) {
  // OpenSSL only reads it: the parameter type has no const form.
  return OSSL_PARAM_construct_octet_string(name, const_cast<uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

Result<std::vector<uint8_t>> HkdfSha256(std::span<const uint8_t> input_key,
                                        std::span<const uint8_t> salt,
                                        std::span<const uint8_t> info, size_t size) {
  if (input_key.empty()) return Error::Invalid("HKDF: the input key is empty");
  if (size == 0 || size > size_t{255} * 32) {
    return Error::Invalid("HKDF: " + std::to_string(size) + " bytes requested; it gives 1 to 8160");
  }
  const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> kdf(
      EVP_KDF_fetch(nullptr, "HKDF", nullptr), &EVP_KDF_free);
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(
      kdf ? EVP_KDF_CTX_new(kdf.get()) : nullptr, &EVP_KDF_CTX_free);
  if (!context) return Error::Internal("HKDF: OpenSSL has no HKDF here");

  char digest[] = "SHA256";
  std::vector<OSSL_PARAM> params = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      OctetParam(OSSL_KDF_PARAM_KEY, input_key)};
  if (!salt.empty()) params.push_back(OctetParam(OSSL_KDF_PARAM_SALT, salt));
  if (!info.empty()) params.push_back(OctetParam(OSSL_KDF_PARAM_INFO, info));
  params.push_back(OSSL_PARAM_construct_end());

  std::vector<uint8_t> out(size);
  if (EVP_KDF_derive(context.get(), out.data(), out.size(), params.data()) != 1) {
    return Error::Internal("HKDF: OpenSSL could not derive a key");
  }
  return out;
}

Result<Key> DeriveKey(std::span<const uint8_t> master, std::string_view job_uid,
                      std::string_view purpose) {
  if (master.size() < kMinMasterKeySize) {
    return Error::Invalid("the master key has " + std::to_string(master.size()) +
                          " bytes; it needs at least " + std::to_string(kMinMasterKeySize));
  }
  if (job_uid.empty() || purpose.empty()) {
    return Error::Invalid("a job's key needs the job's UID and a purpose");
  }
  const std::string info = "lockstep/1 " + std::string(purpose);
  Result<std::vector<uint8_t>> bytes = HkdfSha256(master, Bytes(job_uid), Bytes(info), kKeySize);
  if (!bytes.ok()) return bytes.error();
  Key key;
  std::copy(bytes->begin(), bytes->end(), key.begin());
  return key;
}

}  // namespace lockstep
