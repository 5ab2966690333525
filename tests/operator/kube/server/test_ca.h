// A certificate authority for one test.
#ifndef LOCKSTEP_TESTS_OPERATOR_KUBE_SERVER_TEST_CA_H_
#define LOCKSTEP_TESTS_OPERATOR_KUBE_SERVER_TEST_CA_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace lockstep::kube {

struct Issued {
  std::string certificate;  // PEM
  std::string key;
};

class TestCa {
 public:
  explicit TestCa(const std::string& name);

  const std::string& pem() const { return pem_; }
  // For a server (`alternatives`: "IP:127.0.0.1,DNS:api.test") or, without any, for a client.
  Issued Issue(const std::string& name, const std::string& alternatives = "");

 private:
  struct Free {
    void operator()(X509* certificate) const { X509_free(certificate); }
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  };
  using Certificate = std::unique_ptr<X509, Free>;
  using Key = std::unique_ptr<EVP_PKEY, Free>;

  Certificate Make(const std::string& name, EVP_PKEY* key, const X509* issuer,
                   const std::string& extension, const std::string& value);

  Key key_;
  Certificate certificate_;
  std::string pem_;
  int serial_ = 0;
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_TESTS_OPERATOR_KUBE_SERVER_TEST_CA_H_
