#include "base/uuid.h"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace lockstep {
namespace {

void Stamp(Uuid& uuid, uint8_t version) {
  uuid.bytes[6] = static_cast<uint8_t>((uuid.bytes[6] & 0x0f) | (version << 4));
  uuid.bytes[8] = static_cast<uint8_t>((uuid.bytes[8] & 0x3f) | 0x80);
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool HasDashBefore(size_t byte) { return byte == 4 || byte == 6 || byte == 8 || byte == 10; }

}  // namespace

Uuid Uuid::Random() {
  Uuid uuid;
  // Nothing made of a UUID would be safe without entropy.
  if (RAND_bytes(uuid.bytes.data(), static_cast<int>(uuid.bytes.size())) != 1) std::abort();
  Stamp(uuid, 4);
  return uuid;
}

Uuid Uuid::FromName(const Uuid& name_space, std::string_view name) {
  std::vector<uint8_t> input(name_space.bytes.begin(), name_space.bytes.end());
  input.insert(input.end(), name.begin(), name.end());
  std::array<uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (EVP_Digest(input.data(), input.size(), digest.data(), &size, EVP_sha1(), nullptr) != 1) {
    std::abort();
  }
  Uuid uuid;
  std::copy_n(digest.begin(), uuid.bytes.size(), uuid.bytes.begin());
  Stamp(uuid, 5);
  return uuid;
}

std::optional<Uuid> Uuid::Parse(std::string_view text) {
  if (text.size() != 36) return std::nullopt;
  Uuid uuid;
  size_t at = 0;
  for (size_t i = 0; i < uuid.bytes.size(); ++i) {
    if (HasDashBefore(i) && text[at++] != '-') return std::nullopt;
    const int high = HexDigit(text[at]);
    const int low = HexDigit(text[at + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    uuid.bytes[i] = static_cast<uint8_t>(high * 16 + low);
    at += 2;
  }
  return uuid;
}

std::string Uuid::ToString() const {
  constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (HasDashBefore(i)) text += '-';
    text += kHex[bytes[i] >> 4];
    text += kHex[bytes[i] & 0x0f];
  }
  return text;
}

}  // namespace lockstep
