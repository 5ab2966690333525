// ScriptedServer: a TLS server on loopback that does, on each connection, what a test's script
// says, byte for byte. A thread a connection; its destructor closes them all.
#ifndef LOCKSTEP_TESTS_OPERATOR_KUBE_SERVER_SCRIPTED_SERVER_H_
#define LOCKSTEP_TESTS_OPERATOR_KUBE_SERVER_SCRIPTED_SERVER_H_

#include <openssl/ssl.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/thread_annotations.h"
#include "base/unique_fd.h"
#include "tests/operator/kube/server/test_ca.h"

namespace lockstep::kube {

struct Received {
  std::string method;
  std::string path;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  std::string Header(const std::string& name) const {
    auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

// What a script sees of a connection. Every call is over, and false or nullopt, once the client or
// the server's destructor closed it.
class ServerConnection {
 public:
  ServerConnection(SSL* ssl, int number) : ssl_(ssl), number_(number) {}

  std::optional<Received> Read();
  bool Write(std::string_view bytes);
  // A whole answer with a Content-Length.
  bool Answer(int status, std::string_view body, const std::string& headers = "");
  // Until the client closes.
  void AwaitClose();
  // From now on the end is a reset, without close_notify.
  void Cut() { cut_ = true; }

  bool cut() const { return cut_; }
  int number() const { return number_; }  // from 0, in the order of their being accepted
  std::string PeerName() const;           // of the client's certificate

 private:
  SSL* ssl_;
  int number_;
  bool cut_ = false;
  std::string unread_;
};

class ScriptedServer {
 public:
  using Script = std::function<void(ServerConnection&)>;
  struct Options {
    std::string client_ca{};  // asks for certificates of it
    int max_version = 0;
    bool speaks = true;  // false: takes connections and never says anything
  };

  ScriptedServer(const Issued& identity, Script script)
      : ScriptedServer(identity, std::move(script), {}) {}
  ScriptedServer(const Issued& identity, Script script, const Options& options);
  ~ScriptedServer();

  uint16_t port() const { return port_; }
  std::string url() const { return "https://127.0.0.1:" + std::to_string(port_); }
  int accepted() const { return accepted_; }
  int handshakes() const { return handshakes_; }

  // A script for simple servers: `answer` to every request of every connection.
  static Script Always(std::function<void(ServerConnection&, const Received&)> answer);

 private:
  struct ContextFree {
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  void Accept();
  void Serve(int fd, int number);

  Script script_;
  const bool speaks_;
  std::unique_ptr<SSL_CTX, ContextFree> context_;
  UniqueFd listener_;
  uint16_t port_ = 0;
  std::atomic<int> accepted_ = 0;
  std::atomic<int> handshakes_ = 0;
  Mutex mutex_;
  bool ending_ GUARDED_BY(mutex_) = false;
  std::list<UniqueFd> connections_ GUARDED_BY(mutex_);
  std::list<std::thread> threads_ GUARDED_BY(mutex_);
  std::thread acceptor_;
};

}  // namespace lockstep::kube

#endif  // LOCKSTEP_TESTS_OPERATOR_KUBE_SERVER_SCRIPTED_SERVER_H_
