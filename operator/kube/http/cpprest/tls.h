// Trust and client certificate of an OpenSSL context that cpprestsdk made.
#ifndef LOCKSTEP_OPERATOR_KUBE_HTTP_CPPREST_TLS_H_
#define LOCKSTEP_OPERATOR_KUBE_HTTP_CPPREST_TLS_H_

#include <openssl/ssl.h>

#include <memory>
#include <vector>

#include "base/result.h"
#include "operator/kube/config/credentials.h"

namespace lockstep::kube {

class CpprestTls {
 public:
  // Invalid: PEM that can't be read, a key that isn't the certificate's.
  static Result<std::shared_ptr<const CpprestTls>> Create(const TlsMaterial& material);

  // Makes this the only trust of `context`, whatever stood there (cpprestsdk adds the system's
  // authorities before anyone is asked), and TLS 1.2 the least.
  void Apply(SSL_CTX* context) const;

 private:
  struct Free {
    void operator()(X509_STORE* store) const { X509_STORE_free(store); }
    void operator()(X509* certificate) const { X509_free(certificate); }
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  };
  using Certificate = std::unique_ptr<X509, Free>;
  static std::vector<Certificate> ReadCertificates(const std::string& pem);

  std::unique_ptr<X509_STORE, Free> store_;
  std::vector<Certificate> chain_;  // of the client, its own first
  std::unique_ptr<EVP_PKEY, Free> key_;
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_OPERATOR_KUBE_HTTP_CPPREST_TLS_H_
