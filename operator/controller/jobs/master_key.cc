#include "operator/controller/jobs/master_key.h"

#include <openssl/evp.h>
#include <sys/random.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "base/crypto/hkdf.h"
#include "base/text/ascii.h"
#include "base/text/json.h"

namespace lockstep::control {
namespace {

using kube::ApiErrorKind;
using kube::ApiResult;
using kube::Method;
using kube::Path;

std::optional<std::vector<uint8_t>> DecodeBase64(const std::string& text) {
  if (text.empty() || text.size() % 4 != 0 || text.size() > 4096) return std::nullopt;
  std::vector<uint8_t> bytes(text.size() / 4 * 3);
  const int size = EVP_DecodeBlock(bytes.data(), reinterpret_cast<const uint8_t*>(text.data()),
                                   static_cast<int>(text.size()));
  if (size < 0) return std::nullopt;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  bytes.resize(static_cast<size_t>(size) - padding);
  return bytes;
}

std::string EncodeBase64(const Key& key) {
  std::string text((key.size() + 2) / 3 * 4 + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<uint8_t*>(text.data()), key.data(),
                                   static_cast<int>(key.size()));
  text.resize(static_cast<size_t>(size));
  return text;
}

// "v12" -> 12.
std::optional<int32_t> VersionOf(const std::string& name) {
  if (!name.starts_with('v')) return std::nullopt;
  const auto version = ParseNumber<int32_t>(std::string_view(name).substr(1));
  return version && *version > 0 ? version : std::nullopt;
}

kube::ApiError Unreadable(const std::string& message) {
  kube::ApiError error;
  error.kind = ApiErrorKind::kDecode;
  error.message = message;
  return error;
}

void Read(kube::Client* client, const std::string& system_namespace,
          const std::function<void(ApiResult<MasterKeys>)>& done, bool may_make);

void Make(kube::Client* client, const std::string& system_namespace,
          const std::function<void(ApiResult<MasterKeys>)>& done) {
  Key key{};
  if (getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size())) {
    return done(Unreadable(ErrnoError("getrandom", errno).message));
  }
  const Json secret = {{"apiVersion", "v1"},
                       {"kind", "Secret"},
                       {"type", "Opaque"},
                       {"metadata",
                        {{"name", kMasterKeySecret},
                         {"labels", {{"app.kubernetes.io/managed-by", "lockstep-operator"}}}}},
                       {"data", {{"v1", EncodeBase64(key)}}}};
  client->Call({Method::kPost, Path(kube::kSecrets, system_namespace), DumpJson(secret)},
               [=](const ApiResult<std::string>& answer) {
                 const bool there =
                     answer.ok() || answer.error().kind == ApiErrorKind::kAlreadyExists;
                 if (!there) return done(answer.error());
                 Read(client, system_namespace, done, /*may_make=*/false);
               });
}

void Read(kube::Client* client, const std::string& system_namespace,
          const std::function<void(ApiResult<MasterKeys>)>& done, bool may_make) {
  client->Call({Method::kGet, Path(kube::kSecrets, system_namespace, kMasterKeySecret), ""},
               [=](const ApiResult<std::string>& answer) {
                 if (!answer.ok()) {
                   if (may_make && answer.error().kind == ApiErrorKind::kNotFound) {
                     return Make(client, system_namespace, done);
                   }
                   return done(answer.error());
                 }
                 Result<MasterKeys> keys = MasterKeys::FromSecret(*answer);
                 if (!keys.ok()) return done(Unreadable(keys.error().message));
                 done(std::move(*keys));
               });
}

}  // namespace

Result<MasterKeys> MasterKeys::FromSecret(const std::string& text) {
  const Json secret = ParseJson(text);
  MasterKeys keys;
  if (secret.is_object() && secret.contains("data") && secret["data"].is_object()) {
    for (const auto& [name, value] : secret["data"].items()) {
      const std::optional<int32_t> version = VersionOf(name);
      if (!version || !value.is_string()) continue;
      std::optional<std::vector<uint8_t>> bytes = DecodeBase64(value.get<std::string>());
      if (bytes && bytes->size() >= kMinMasterKeySize) keys.versions_[*version] = std::move(*bytes);
    }
  }
  if (keys.versions_.empty()) {
    return Error::Invalid(std::string("Secret ") + kMasterKeySecret +
                          " holds no key: it needs an entry v1 of at least 16 bytes; delete the "
                          "Secret while no job runs, and the operator makes it anew");
  }
  return keys;
}

const std::vector<uint8_t>* MasterKeys::Find(int32_t version) const {
  const auto found = versions_.find(version);
  return found == versions_.end() ? nullptr : &found->second;
}

void LoadMasterKeys(kube::Client* client, const std::string& system_namespace,
                    const std::function<void(ApiResult<MasterKeys>)>& done) {
  Read(client, system_namespace, done, /*may_make=*/true);
}

}  // namespace lockstep::control
