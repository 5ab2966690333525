#include "base/crypto/sha256.h"

#include <array>
#include <cassert>

namespace lockstep {

Sha256::Sha256() : context_(EVP_MD_CTX_new(), &EVP_MD_CTX_free) {
  [[maybe_unused]] int ok = EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr);
  assert(ok == 1);
}

void Sha256::Add(std::span<const std::byte> bytes) {
  [[maybe_unused]] int ok = EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
  assert(ok == 1);
}

std::string Sha256::Hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(context_.get(), hash.data(), &size);
  constexpr const char* kDigits = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex += kDigits[hash[i] >> 4];
    hex += kDigits[hash[i] & 15];
  }
  return hex;
}

}  // namespace lockstep
