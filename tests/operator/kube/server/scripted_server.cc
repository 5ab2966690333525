#include "tests/operator/kube/server/scripted_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/pem.h>
#include <sys/socket.h>

#include <cassert>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <utility>

namespace lockstep::kube {
namespace {

// The end is a reset then, instead of an orderly one.
void ResetAtClose(int fd) {
  linger hard{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
}

BIO* Reader(const std::string& pem) {
  return BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
}

std::string Trim(const std::string& text) {
  size_t first = text.find_first_not_of(" \t");
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// The request whose head is `head`, without its body.
Received ParseHead(const std::string& head) {
  std::istringstream lines(head);
  Received received;
  std::string line;
  std::getline(lines, line);
  std::istringstream(line) >> received.method >> received.path;
  while (std::getline(lines, line)) {
    size_t colon = line.find(':');
    if (colon == line.npos) continue;
    std::string name = line.substr(0, colon);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    received.headers[name] = Trim(line.substr(colon + 1));
  }
  return received;
}

}  // namespace

std::optional<Received> ServerConnection::Read() {
  char buffer[16 * 1024];
  for (;;) {
    size_t end = unread_.find("\r\n\r\n");
    if (end != unread_.npos) {
      Received received = ParseHead(unread_.substr(0, end + 2));
      size_t begin = end + 4;
      auto length = static_cast<size_t>(std::atoi(received.Header("content-length").c_str()));
      if (unread_.size() >= begin + length) {
        received.body = unread_.substr(begin, length);
        unread_.erase(0, begin + length);
        return received;
      }
    }
    int got = SSL_read(ssl_, buffer, sizeof(buffer));
    if (got <= 0) return std::nullopt;
    unread_.append(buffer, static_cast<size_t>(got));
  }
}

bool ServerConnection::Write(std::string_view bytes) {
  return SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())) > 0;
}

bool ServerConnection::Answer(int status, std::string_view body, const std::string& headers) {
  std::string text = "HTTP/1.1 " + std::to_string(status) + " Some Text\r\n" + headers +
                     "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  return Write(text.append(body));
}

void ServerConnection::AwaitClose() {
  char buffer[1024];
  while (SSL_read(ssl_, buffer, sizeof(buffer)) > 0) {
  }
}

std::string ServerConnection::PeerName() const {
  X509* peer = SSL_get1_peer_certificate(ssl_);
  if (peer == nullptr) return "";
  char name[256] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(peer), NID_commonName, name, sizeof(name));
  X509_free(peer);
  return name;
}

ScriptedServer::ScriptedServer(const Issued& identity, Script script, const Options& options)
    : script_(std::move(script)),
      speaks_(options.speaks),
      context_(SSL_CTX_new(TLS_server_method())) {
  std::signal(SIGPIPE, SIG_IGN);  // of clients that are gone
  BIO* certificate = Reader(identity.certificate);
  BIO* key = Reader(identity.key);
  X509* parsed = PEM_read_bio_X509(certificate, nullptr, nullptr, nullptr);
  EVP_PKEY* parsed_key = PEM_read_bio_PrivateKey(key, nullptr, nullptr, nullptr);
  SSL_CTX_use_certificate(context_.get(), parsed);
  SSL_CTX_use_PrivateKey(context_.get(), parsed_key);
  X509_free(parsed);
  EVP_PKEY_free(parsed_key);
  BIO_free(certificate);
  BIO_free(key);
  if (!options.client_ca.empty()) {
    BIO* ca = Reader(options.client_ca);
    X509* authority = PEM_read_bio_X509(ca, nullptr, nullptr, nullptr);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), authority);
    X509_free(authority);
    BIO_free(ca);
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
  }
  if (options.max_version != 0) {
    SSL_CTX_set_security_level(context_.get(), 0);
    SSL_CTX_set_min_proto_version(context_.get(), TLS1_VERSION);
    SSL_CTX_set_max_proto_version(context_.get(), options.max_version);
  }
  listener_.reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  [[maybe_unused]] const int failed =
      bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) |
      listen(listener_.get(), 512) |
      getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size);
  assert(failed == 0);
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

ScriptedServer::~ScriptedServer() {
  shutdown(listener_.get(), SHUT_RDWR);
  acceptor_.join();
  std::list<std::thread> threads;
  {
    MutexLock lock(&mutex_);
    ending_ = true;
    for (UniqueFd& fd : connections_) {
      if (fd.valid()) shutdown(fd.get(), SHUT_RDWR);
    }
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

void ScriptedServer::Accept() {
  for (;;) {
    int fd = accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    int number = accepted_++;
    MutexLock lock(&mutex_);
    connections_.emplace_back(fd);
    if (speaks_) threads_.emplace_back([this, fd, number] { Serve(fd, number); });
  }
}

void ScriptedServer::Serve(int fd, int number) {
  SSL* ssl = SSL_new(context_.get());
  SSL_set_fd(ssl, fd);
  if (SSL_accept(ssl) == 1) {
    ++handshakes_;
    ServerConnection connection(ssl, number);
    script_(connection);
    if (connection.cut()) {
      ResetAtClose(fd);
    } else {
      SSL_shutdown(ssl);
    }
  }
  SSL_free(ssl);
  MutexLock lock(&mutex_);
  for (UniqueFd& open : connections_) {
    if (open.get() == fd) open.reset();
  }
}

ScriptedServer::Script ScriptedServer::Always(
    std::function<void(ServerConnection&, const Received&)> answer) {
  return [answer = std::move(answer)](ServerConnection& connection) {
    while (std::optional<Received> received = connection.Read()) answer(connection, *received);
  };
}

}  // namespace lockstep::kube
