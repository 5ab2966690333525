// TLS 1.3 with one pre-shared key and nothing else: no certificates, no tickets, no other suite.
// A peer with the job's key is in the gang; any other peer is refused at the first flight.
//
//   Result<TlsPskContext> context = TlsPskContext::Server(key, job_uid);
//   Result<TlsSession> session = context->NewSession();
//   session->Receive(bytes_from_the_wire, &plain);    // feeds, handshakes, decrypts
//   session->Send("answer");                          // encrypts
//   session->ConsumeOutput(write(fd, session->output().data(), session->output().size()));
//
// A TlsSession is a pure transformation between ciphertext and plaintext in memory: it owns no
// socket and never blocks. One thread at a time; a context must outlive its sessions.
//
// Why a man in the middle gets nowhere (each is tested):
//  - the only suite is TLS_AES_128_GCM_SHA256, the one whose hash an external key belongs to: with
//    OpenSSL's default list a SHA-384 suite is picked and the key is silently ignored;
//  - the client verifies the peer against an empty trust store, so a server with any certificate,
//    which is one that ignored the key, is refused;
//  - both sides require that the handshake resumed the external session.
#ifndef LOCKSTEP_BASE_CRYPTO_TLS_PSK_H_
#define LOCKSTEP_BASE_CRYPTO_TLS_PSK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/crypto/hkdf.h"
#include "base/result.h"

struct ssl_st;

namespace lockstep {

struct PskCallbacks;  // OpenSSL's side of it, in the .cc

class TlsSession {
 public:
  TlsSession(TlsSession&&) noexcept;
  TlsSession& operator=(TlsSession&&) noexcept;
  ~TlsSession();

  // Takes bytes from the wire, goes on with the handshake and appends what was decrypted to
  // `plain`. Denied when the peer has another key, another identity or no key; the alert to send
  // then stands in output(). After an error the session is of no further use.
  Status Receive(std::string_view ciphertext, std::string* plain);

  // Encrypts; only once established.
  Status Send(std::string_view plain);

  // Queues close_notify.
  void Close();

  bool established() const { return established_; }
  // The peer sent close_notify: nothing more will come, and nothing was cut off.
  bool peer_closed() const { return peer_closed_; }

  // Ciphertext to put on the wire; valid until the next call.
  std::string_view output();
  void ConsumeOutput(size_t bytes);

 private:
  friend class TlsPskContext;
  TlsSession(ssl_st* ssl, bool is_server);
  Status Handshake();
  Error HandshakeError() const;

  struct SslFree {
    void operator()(ssl_st* ssl) const;
  };
  std::unique_ptr<ssl_st, SslFree> ssl_;
  bool is_server_ = false;
  bool established_ = false;
  bool peer_closed_ = false;
};

class TlsPskContext {
 public:
  // `identity` names the key on the wire (in clear): the job's UID, at most 128 bytes.
  static Result<TlsPskContext> Server(const Key& key, const std::string& identity);
  static Result<TlsPskContext> Client(const Key& key, const std::string& identity);

  TlsPskContext(TlsPskContext&&) noexcept;
  TlsPskContext& operator=(TlsPskContext&&) noexcept;
  ~TlsPskContext();

  // A client's first flight stands in output() at once.
  Result<TlsSession> NewSession() const;

  // Whether a session of this server has answered this very ClientHello, among the latest
  // kHellosRemembered that held the key: nothing in one says that it is new, so whoever captured it
  // could send it again. A client never sends one twice.
  bool HasAnswered(std::string_view client_hello) const;
  static constexpr size_t kHellosRemembered = 4096;

 private:
  struct Shared;
  friend class TlsSession;
  friend struct PskCallbacks;
  TlsPskContext(std::unique_ptr<Shared> shared, bool is_server);
  static Result<TlsPskContext> Make(const Key& key, const std::string& identity, bool is_server);

  std::unique_ptr<Shared> shared_;
  bool is_server_ = false;
};

// What the first bytes of a connection are. It is known before any TLS state is made: garbage costs
// nothing, and a handshake object (45 KB) is made only for a whole ClientHello in one record, which
// either proves the key or fails at once.
enum class ClientHelloCheck : uint8_t {
  kNeedMore,  // so far it can be the record of a ClientHello
  kComplete,  // it is there, alone in the first record
  kNotTls,    // it cannot be one
  kTooLarge,  // it announces more than kMaxClientHello bytes
};
inline constexpr size_t kMaxClientHello = 4096;
ClientHelloCheck CheckClientHello(std::string_view bytes);

}  // namespace lockstep

#endif  // LOCKSTEP_BASE_CRYPTO_TLS_PSK_H_
