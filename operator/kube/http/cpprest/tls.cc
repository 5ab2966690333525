#include "operator/kube/http/cpprest/tls.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include <utility>

namespace lockstep::kube {
namespace {

struct BioFree {
  void operator()(BIO* bio) const { BIO_free(bio); }
};

std::unique_ptr<BIO, BioFree> Open(const std::string& pem) {
  return std::unique_ptr<BIO, BioFree>(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

}  // namespace

std::vector<CpprestTls::Certificate> CpprestTls::ReadCertificates(const std::string& pem) {
  std::vector<Certificate> all;
  auto bio = Open(pem);
  while (X509* certificate = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) {
    all.emplace_back(certificate);
  }
  ERR_clear_error();  // the end of the text is one
  return all;
}

Result<std::shared_ptr<const CpprestTls>> CpprestTls::Create(const TlsMaterial& material) {
  auto tls = std::make_shared<CpprestTls>();
  tls->store_.reset(X509_STORE_new());
  std::vector<Certificate> authorities = ReadCertificates(material.ca);
  if (authorities.empty()) return Error::Invalid("the cluster's CA holds no certificate in PEM");
  for (const Certificate& authority : authorities) {
    X509_STORE_add_cert(tls->store_.get(), authority.get());
  }
  if (!material.certificate.empty()) {
    tls->chain_ = ReadCertificates(material.certificate);
    tls->key_.reset(PEM_read_bio_PrivateKey(Open(material.key).get(), nullptr, nullptr, nullptr));
    if (tls->chain_.empty() || !tls->key_ ||
        X509_check_private_key(tls->chain_.front().get(), tls->key_.get()) != 1) {
      ERR_clear_error();
      return Error::Invalid("the client's certificate and key cannot be used together");
    }
  }
  return std::shared_ptr<const CpprestTls>(std::move(tls));
}

void CpprestTls::Apply(SSL_CTX* context) const {
  SSL_CTX_set1_cert_store(context, store_.get());
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  for (const Certificate& certificate : chain_) {
    if (&certificate == &chain_.front()) {
      SSL_CTX_use_certificate(context, certificate.get());
    } else {
      SSL_CTX_add1_chain_cert(context, certificate.get());
    }
  }
  if (key_) SSL_CTX_use_PrivateKey(context, key_.get());
}

}  // namespace lockstep::kube
