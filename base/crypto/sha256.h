// SHA-256 of bytes that come piece by piece.
#ifndef LOCKSTEP_BASE_CRYPTO_SHA256_H_
#define LOCKSTEP_BASE_CRYPTO_SHA256_H_

#include <openssl/evp.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace lockstep {

class Sha256 {
 public:
  Sha256();
  void Add(std::span<const std::byte> bytes);
  // Once, at the end: 64 lower-case hexadecimal digits.
  std::string Hex();

 private:
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context_;
};

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_CRYPTO_SHA256_H_
