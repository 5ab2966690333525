#include "tests/operator/kube/server/test_ca.h"

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cassert>

namespace lockstep::kube {
namespace {

std::string Contents(BIO* bio) {
  char* data = nullptr;
  long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

std::string Pem(X509* certificate) {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, certificate);
  return Contents(bio);
}

std::string Pem(EVP_PKEY* key) {
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  return Contents(bio);
}

}  // namespace

TestCa::TestCa(const std::string& name)
    : key_(EVP_EC_gen("P-256")),
      certificate_(Make(name, key_.get(), nullptr, "basicConstraints", "critical,CA:TRUE")),
      pem_(Pem(certificate_.get())) {}

Issued TestCa::Issue(const std::string& name, const std::string& alternatives) {
  Key key(EVP_EC_gen("P-256"));
  Certificate certificate =
      alternatives.empty()
          ? Make(name, key.get(), certificate_.get(), "extendedKeyUsage", "clientAuth")
          : Make(name, key.get(), certificate_.get(), "subjectAltName", alternatives);
  return {Pem(certificate.get()), Pem(key.get())};
}

TestCa::Certificate TestCa::Make(const std::string& name, EVP_PKEY* key, const X509* issuer,
                                 const std::string& extension, const std::string& value) {
  Certificate certificate(X509_new());
  X509* raw = certificate.get();
  X509_set_version(raw, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(raw), ++serial_);
  X509_gmtime_adj(X509_getm_notBefore(raw), -3600);
  X509_gmtime_adj(X509_getm_notAfter(raw), 24 * 3600);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(raw), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(raw, X509_get_subject_name(issuer == nullptr ? raw : issuer));
  X509_set_pubkey(raw, key);
  X509_EXTENSION* parsed = X509V3_EXT_conf(nullptr, nullptr, extension.c_str(), value.c_str());
  assert(parsed != nullptr);
  X509_add_ext(raw, parsed, -1);
  X509_EXTENSION_free(parsed);
  X509_sign(raw, issuer == nullptr ? key : key_.get(), EVP_sha256());
  return certificate;
}

}  // namespace lockstep::kube
